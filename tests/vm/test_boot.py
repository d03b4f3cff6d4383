"""The VM: what it refuses, in one line, and the image that its kernel reads."""

import subprocess
import sys
from pathlib import Path

VM = Path(__file__).parents[2] / "vm"


def boot(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(VM / "boot.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=60,
    )


def image(code: str) -> str:
    """What a snippet prints that may import the modules of the folder."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=VM, timeout=60
    )
    return done.stdout


def test_help_ends_in_an_example() -> None:
    assert "example: python3 vm/boot.py" in boot("--help").stdout


def test_a_machine_without_qemu_is_told_what_to_install(tmp_path: Path) -> None:
    done = boot("--", "true", HOME=str(tmp_path), PATH="/nowhere")
    assert done.returncode == 2
    assert done.stderr == (
        "vm: qemu-system-x86_64 is missing; install it: apt-get install qemu-system-x86\n"
    )


def test_the_image_is_a_newcarchive_with_names_modes_and_bodies_in_their_places() -> None:
    code = (
        "import sys, image; sys.stdout.buffer.write(image.archive("
        "[('bin', 0o040755, b''), ('init', 0o100755, b'hello')]).hex().encode())"
    )
    held = bytes.fromhex(image(code))
    found = []
    at = 0
    while True:
        assert held[at : at + 6] == b"070701"
        fields = [int(held[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name = held[at + 110 : at + 110 + fields[11] - 1].decode()
        body_at = -(-(at + 110 + fields[11]) // 4) * 4
        found.append((name, fields[1], held[body_at : body_at + fields[6]]))
        at = -(-(body_at + fields[6]) // 4) * 4
        if name == "TRAILER!!!":
            break
    assert found == [("bin", 0o040755, b""), ("init", 0o100755, b"hello"), ("TRAILER!!!", 0, b"")]
    assert at == len(held)


def test_the_needs_of_a_module_are_read_from_its_own_information() -> None:
    code = (
        "import image; print(image.needs(b'x\\0license=GPL\\0depends=9pnet,net-fs\\0name=9p\\0'),"
        " image.needs(b'\\0depends=\\0'), image.needs(b'nothing'))"
    )
    assert image(code) == "['9pnet', 'net_fs'] [] []\n"

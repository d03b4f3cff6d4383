"""Facts about models and GPUs as tables, with the source of every row."""

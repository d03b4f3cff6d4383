"""The face: scenario files, runs, comparisons and the command line. It joins the other rooms."""

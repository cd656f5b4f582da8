"""What makes files of this repository; run by hand."""

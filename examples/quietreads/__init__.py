"""QuietReads: an assistant that knows what you have read and what waits on your shelf."""

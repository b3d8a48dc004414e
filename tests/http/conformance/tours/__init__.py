"""One program per SDK. It takes the server's address and ends with 0 if all went as it should."""

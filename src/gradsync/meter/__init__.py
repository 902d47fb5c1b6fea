"""Where the time and the bytes went: stamps while training, arithmetic afterwards."""

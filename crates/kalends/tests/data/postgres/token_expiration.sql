SELECT expires / 10000000.0 FROM tokens;

# client/decode

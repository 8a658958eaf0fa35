module verify

go 1.24

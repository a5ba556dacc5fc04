module example.com/tiller-host

go 1.19

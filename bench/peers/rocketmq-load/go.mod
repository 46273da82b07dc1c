module headrace/remotingload

go 1.25.0

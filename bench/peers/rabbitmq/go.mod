module headrace/amqpload

go 1.25.0

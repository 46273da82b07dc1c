// AMQP 0-9-1 frames by hand: what is sent often is made once, and what comes is not copied.

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"os"
)

const (
	frameMethod, frameHeader, frameBody, frameEnd = 1, 2, 3, 0xce
	bufferBytes                                   = 128 << 10
)

// Classes and methods, as class << 16 | method.
const (
	connectionStart   = 10<<16 | 10
	connectionStartOk = 10<<16 | 11
	connectionTune    = 10<<16 | 30
	connectionTuneOk  = 10<<16 | 31
	connectionOpen    = 10<<16 | 40
	connectionOpenOk  = 10<<16 | 41
	connectionClose   = 10<<16 | 50
	channelOpen       = 20<<16 | 10
	channelOpenOk     = 20<<16 | 11
	channelClose      = 20<<16 | 40
	exchangeDeclare   = 40<<16 | 10
	exchangeDeclareOk = 40<<16 | 11
	exchangeDelete    = 40<<16 | 20
	exchangeDeleteOk  = 40<<16 | 21
	queueDeclare      = 50<<16 | 10
	queueDeclareOk    = 50<<16 | 11
	queueBind         = 50<<16 | 20
	queueBindOk       = 50<<16 | 21
	queueDelete       = 50<<16 | 40
	queueDeleteOk     = 50<<16 | 41
	basicQos          = 60<<16 | 10
	basicQosOk        = 60<<16 | 11
	basicConsume      = 60<<16 | 20
	basicConsumeOk    = 60<<16 | 21
	basicPublish      = 60<<16 | 40
	basicDeliver      = 60<<16 | 60
	basicAck          = 60<<16 | 80
	basicNack         = 60<<16 | 120
	confirmSelect     = 85<<16 | 10
	confirmSelectOk   = 85<<16 | 11
)

type arguments []byte

func (a arguments) octet(value byte) arguments   { return append(a, value) }
func (a arguments) short(value uint16) arguments { return binary.BigEndian.AppendUint16(a, value) }
func (a arguments) long(value uint32) arguments  { return binary.BigEndian.AppendUint32(a, value) }
func (a arguments) longlong(value uint64) arguments {
	return binary.BigEndian.AppendUint64(a, value)
}
func (a arguments) text(value string) arguments {
	return append(append(a, byte(len(value))), value...)
}
func (a arguments) longText(value string) arguments {
	return append(a.long(uint32(len(value))), value...)
}

// table holds texts only.
func (a arguments) table(pairs ...string) arguments {
	var inner arguments
	for at := 0; at < len(pairs); at += 2 {
		inner = inner.text(pairs[at]).octet('S').longText(pairs[at+1])
	}
	return a.longText(string(inner))
}

func methodFrame(channel uint16, method uint32, inner arguments) []byte {
	return frame(frameMethod, channel, append(arguments{}.long(method), inner...))
}

func frame(kind byte, channel uint16, payload []byte) []byte {
	head := arguments{kind}.short(channel).long(uint32(len(payload)))
	return append(append(head, payload...), frameEnd)
}

// conn is a connection with one open channel, 1.
type conn struct {
	net.Conn
	in      *bufio.Reader
	out     *bufio.Writer
	pending int
}

func wrap(socket net.Conn) *conn {
	return &conn{socket, bufio.NewReaderSize(socket, bufferBytes), bufio.NewWriterSize(socket, bufferBytes), 0}
}

func dial(address string) *conn {
	socket, err := net.Dial("tcp", address)
	check(err)
	c := wrap(socket)
	c.write([]byte("AMQP\x00\x00\x09\x01"))
	c.expect(connectionStart)
	c.write(methodFrame(0, connectionStartOk, arguments{}.table().text("PLAIN").longText("\x00guest\x00guest").text("en_US")))
	tune := c.expect(connectionTune)
	c.write(methodFrame(0, connectionTuneOk, append(append(arguments{}, tune[:6]...), 0, 0)))
	c.write(methodFrame(0, connectionOpen, arguments{}.text("/").text("").octet(0)))
	c.expect(connectionOpenOk)
	c.call(channelOpen, arguments{}.text(""), channelOpenOk)
	return c
}

func (c *conn) write(frame []byte) {
	_, err := c.out.Write(frame)
	check(err)
}

func (c *conn) flush() { check(c.out.Flush()) }

// next returns a frame; its payload is valid until the next one. What waits to be sent goes out
// before anything is waited for.
func (c *conn) next() (byte, []byte) {
	_, err := c.in.Discard(c.pending)
	check(err)
	c.pending = 0
	if c.in.Buffered() < 7 && c.out.Buffered() > 0 {
		c.flush()
	}
	head, err := c.in.Peek(7)
	check(err)
	size := int(binary.BigEndian.Uint32(head[3:])) + 8
	if c.in.Buffered() < size && c.out.Buffered() > 0 {
		c.flush()
	}
	whole, err := c.in.Peek(size)
	check(err)
	c.pending = size
	return whole[0], whole[7 : size-1]
}

func methodOf(payload []byte) uint32 { return binary.BigEndian.Uint32(payload) }

// expect returns the arguments of the next method, which is this one: all else is an error.
func (c *conn) expect(method uint32) []byte {
	kind, payload := c.next()
	if kind != frameMethod || methodOf(payload) != method {
		refuse(kind, payload)
	}
	return payload[4:]
}

// call sends a method and returns the arguments of its answer.
func (c *conn) call(method uint32, inner arguments, answer uint32) []byte {
	c.write(methodFrame(1, method, inner))
	return c.expect(answer)
}

// refuse ends with what the broker said, where it closed; else with what came.
func refuse(kind byte, payload []byte) {
	method := uint32(0)
	if kind == frameMethod {
		method = methodOf(payload)
	}
	if method == connectionClose || method == channelClose {
		code, size := binary.BigEndian.Uint16(payload[4:]), int(payload[6])
		fail(fmt.Sprintf("closed: %d %s", code, payload[7:7+size]))
	}
	fail(fmt.Sprintf("frame %d, method %d.%d was not expected", kind, method>>16, method&0xffff))
}

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

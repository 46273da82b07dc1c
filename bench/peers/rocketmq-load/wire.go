// Remoting frames by hand: what is sent often is made once, and what comes is not copied.

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	bufferBytes = 512 << 10
	startMax    = 60 * time.Second
	// firstOpaque has as many digits as any opaque of a run, so that it is replaced in its place.
	firstOpaque = 1_000_000_000
	// digitsOfOffset are the digits of an offset in a frame that is made once.
	digitsOfOffset = 12
)

// Codes of requests and answers.
const (
	pullMessage       = 11
	updateOffset      = 15
	updateTopic       = 17
	routeOfTopic      = 105
	clusterInfo       = 106
	deleteInBroker    = 215
	deleteInNames     = 216
	sendMessageV2     = 310
	success           = 0
	systemBusy        = 2
	flushDiskTimeout  = 10
	pullNotFound      = 19
	pullRetry         = 20
	pullOffsetMoved   = 21
	codeAt            = len(`{"code":`)
	answerHeadBytes   = 8
	uniqueKeyProperty = `UNIQ_KEY\u0001`
)

// frame returns a request with a JSON header as the Java client writes it.
func frame(code int, fields string, body []byte) []byte {
	header := fmt.Sprintf(
		`{"code":%d,"extFields":{%s},"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":513}`,
		code, fields, firstOpaque)
	made := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	made = binary.BigEndian.AppendUint32(made, uint32(len(header)))
	return append(append(made, header...), body...)
}

// fields are the pairs of names and values of a header.
func fields(pairs ...string) string {
	said := make([]string, 0, len(pairs)/2)
	for at := 0; at < len(pairs); at += 2 {
		said = append(said, `"`+pairs[at]+`":"`+pairs[at+1]+`"`)
	}
	return strings.Join(said, ",")
}

// after is the place behind the first such text in a frame.
func after(frame []byte, text string) int {
	at := bytes.Index(frame, []byte(text))
	if at < 0 {
		fail("a frame without " + text)
	}
	return at + len(text)
}

// opaqueIn is the place of the opaque in a frame.
func opaqueIn(frame []byte) []byte {
	at := after(frame, `"opaque":`)
	return frame[at : at+len(strconv.Itoa(firstOpaque))]
}

// write replaces digits in their place, with zeros in front.
func write(digits []byte, value int64) {
	for at := len(digits) - 1; at >= 0; at-- {
		digits[at] = byte('0' + value%10)
		value /= 10
	}
}

// tried repeats what fails while a broker starts.
func tried(attempt func() bool, otherwise string) {
	for started := time.Now(); time.Since(started) < startMax; time.Sleep(5 * time.Millisecond) {
		if attempt() {
			return
		}
	}
	fail(otherwise)
}

// conn is a connection; what it reads is valid until the next answer.
type conn struct {
	net.Conn
	in      *bufio.Reader
	out     *bufio.Writer
	pending int
}

func dial(address string) *conn {
	socket, err := net.Dial("tcp", address)
	check(err)
	in := bufio.NewReaderSize(socket, bufferBytes)
	return &conn{socket, in, bufio.NewWriterSize(socket, bufferBytes), 0}
}

// answer is what came back for a request.
type answer struct {
	code   int
	header []byte
	body   []byte
}

// next returns an answer. What waits to be sent goes out before anything is waited for.
func (c *conn) next() answer {
	_, err := c.in.Discard(c.pending)
	check(err)
	c.pending = 0
	c.sendBefore(answerHeadBytes)
	head, err := c.in.Peek(answerHeadBytes)
	check(err)
	size := int(binary.BigEndian.Uint32(head)) + 4
	headerEnd := answerHeadBytes + int(binary.BigEndian.Uint32(head[4:])&0xffffff)
	if size > bufferBytes {
		fail(fmt.Sprintf("an answer of %d bytes", size))
	}
	c.sendBefore(size)
	whole, err := c.in.Peek(size)
	check(err)
	c.pending = size
	header := whole[answerHeadBytes:headerEnd]
	return answer{int(number(header[codeAt:])), header, whole[headerEnd:]}
}

func (c *conn) sendBefore(bytes int) {
	if c.in.Buffered() < bytes && c.out.Buffered() > 0 {
		check(c.out.Flush())
	}
}

// call sends a request and returns its answer, which is copied.
func (c *conn) call(request []byte) answer {
	_, err := c.out.Write(request)
	check(err)
	said := c.next()
	said.body = bytes.Clone(said.body)
	return said
}

// field returns a number of an answer's header.
func (a answer) field(name string) int64 {
	at := bytes.Index(a.header, []byte(`"`+name+`":"`))
	if at < 0 {
		fail(fmt.Sprintf("an answer without %s: %s", name, a.header))
	}
	return number(a.header[at+len(name)+4:])
}

func number(text []byte) int64 {
	value := int64(0)
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			break
		}
		value = value*10 + int64(digit-'0')
	}
	return value
}

func (a answer) refused(doing string) {
	fail(fmt.Sprintf("%s: %s", doing, a.header))
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

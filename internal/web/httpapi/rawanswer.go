package httpapi

import (
	"bytes"
	"strconv"
	"strings"
)

const (
	// textHead is how net/http ends the head of an answer that it writes by itself to
	// a request that reached no handler.
	textHead = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	// tlsHead is the head of what it answers to plain HTTP on a TLS port.
	tlsHead = "HTTP/1.0 400 Bad Request\r\n\r\n"
)

// jsonAnswer gives the JSON form of an answer that net/http has written by itself in
// one piece; false for everything else.
func jsonAnswer(p []byte) ([]byte, bool) {
	if text, ok := bytes.CutPrefix(p, []byte(tlsHead)); ok {
		return jsonError("HTTP/1.0 400 Bad Request", string(text)), true
	}
	if !bytes.HasPrefix(p, []byte("HTTP/1.1 4")) && !bytes.HasPrefix(p, []byte("HTTP/1.1 5")) {
		return nil, false
	}
	head, text, ok := bytes.Cut(p, []byte(textHead))
	if !ok || bytes.IndexByte(head, '\n') >= 0 {
		return nil, false
	}
	return jsonError(string(head), string(text)), true
}

// jsonError writes an error response whole. Of "400 Bad Request: missing Host" it
// keeps the words behind the number.
func jsonError(statusLine, text string) []byte {
	text = strings.TrimSpace(strings.TrimLeft(text, "0123456789"))
	body := append(appendText([]byte(`{"message":`), text), '}')
	b := []byte(statusLine + "\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n\r\n")
	return append(b, body...)
}

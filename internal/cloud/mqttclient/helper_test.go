package mqttclient_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

// keepalive is that of a test that is not about it: no machine stalls for so long.
const keepalive = 10 * time.Minute

// The types of packets (MQTT 3.1.1, section 2.2.1).
const (
	connect    = 1
	publish    = 3
	puback     = 4
	subscribe  = 8
	pingreq    = 12
	disconnect = 14
)

// peer is the broker's end of one connection, spoken in bytes.
type peer struct {
	net.Conn
	in *bufio.Reader
}

func newPeer(conn net.Conn) *peer { return &peer{Conn: conn, in: bufio.NewReader(conn)} }

// read reads one packet of the client's.
func (p *peer) read() (first byte, body []byte, err error) {
	if first, err = p.in.ReadByte(); err != nil {
		return 0, nil, err
	}
	length, err := binary.ReadUvarint(p.in) // MQTT packs a length in the same way
	if err != nil {
		return 0, nil, err
	}
	body = make([]byte, length)
	_, err = io.ReadFull(p.in, body)
	return first, body, err
}

// await reads on until a packet of that type.
func (p *peer) await(kind byte) (body []byte, err error) {
	for {
		first, body, err := p.read()
		if err != nil || first>>4 == kind {
			return body, err
		}
	}
}

// say writes packets; that the client has gone shows elsewhere.
func (p *peer) say(packets ...[]byte) {
	for _, packet := range packets {
		if _, err := p.Write(packet); err != nil {
			return
		}
	}
}

// welcome lets the client in and grants it so many subscriptions.
func (p *peer) welcome(subscriptions int) (connect []byte, err error) {
	connect, err = p.await(1)
	p.say(connack(0))
	for range subscriptions {
		body, err := p.await(subscribe)
		if err != nil {
			return nil, err
		}
		p.say(suback(id(body), 1))
	}
	return connect, err
}

// serve does what a broker does that nothing can upset, until the client goes: it
// acknowledges and answers.
func (p *peer) serve() {
	for {
		first, body, err := p.read()
		if err != nil {
			return
		}
		switch first >> 4 {
		case connect:
			p.say(connack(0))
		case subscribe:
			p.say(suback(id(body), 1))
		case publish:
			if first&6 != 0 {
				_, rest := cut(body)
				p.say(acknowledgement(id(rest)))
			}
		case pingreq:
			p.say([]byte{0xD0, 0})
		case disconnect:
			return
		}
	}
}

// silent reads and says nothing.
func (p *peer) silent() { _, _ = io.Copy(io.Discard, p.in) }

func id(body []byte) uint16 { return binary.BigEndian.Uint16(body) }

// cut takes a text off the beginning of a body.
func cut(body []byte) (text string, rest []byte) {
	n := 2 + int(id(body))
	return string(body[2:n]), body[n:]
}

// packet packs the parts of a packet.
func packet(first byte, parts ...[]byte) []byte {
	var body []byte
	for _, part := range parts {
		body = append(body, part...)
	}
	return append(binary.AppendUvarint([]byte{first}, uint64(len(body))), body...)
}

func u16(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }

func text(s string) []byte { return append(u16(len(s)), s...) }

func connack(code byte) []byte { return []byte{0x20, 2, 0, code} }

func suback(id uint16, codes ...byte) []byte { return packet(0x90, u16(int(id)), codes) }

func acknowledgement(id uint16) []byte { return packet(0x40, u16(int(id))) }

// message packs a PUBLISH.
func message(topic string, qos byte, id int, payload string) []byte {
	if qos == 0 {
		return packet(0x30, text(topic), []byte(payload))
	}
	return packet(0x30|qos<<1, text(topic), u16(id), []byte(payload))
}

// broker is a listener that hands each connection to its play.
type broker struct {
	listener net.Listener
	conns    sync.WaitGroup
}

// listen starts a broker on a free port; each connection is closed when play returns.
// When all is closed at the end of the test, no goroutine may be left.
func listen(t testing.TB, play func(p *peer)) *broker {
	t.Helper()
	others := goleak.IgnoreCurrent()
	t.Cleanup(func() { nothingLeft(t, others) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{listener: l}
	b.conns.Go(func() { b.accept(play) })
	t.Cleanup(func() {
		_ = l.Close()
		ended := make(chan struct{})
		go func() {
			b.conns.Wait()
			close(ended)
		}()
		within(t, "the end of the broker's connections", ended)
	})
	return b
}

// nothingLeft waits until only other goroutines run.
func nothingLeft(t testing.TB, others goleak.Option) {
	t.Helper()
	await.Until(t, "every goroutine has ended", func() bool { return goleak.Find(others) == nil })
}

func (b *broker) accept(play func(p *peer)) {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.conns.Go(func() {
			defer conn.Close()
			play(newPeer(conn))
		})
	}
}

func (b *broker) url() string { return "tcp://" + b.listener.Addr().String() }

// config is one that works.
func config(url string) mqttclient.Config {
	return mqttclient.Config{
		Broker:    mqttclient.Broker{URL: url, ClientID: "gateway-1", Keepalive: keepalive},
		PerSecond: 1e6, Burst: 1e6, Receive: func(mqttclient.Message) {},
		Lookup: func(_ context.Context, host string) ([]string, error) { return []string{host}, nil },
	}
}

// piped is a configuration whose connections, without any socket, go to play: what a
// bubble of fake time needs, in which no goroutine may be left either.
func piped(t testing.TB, play func(p *peer)) mqttclient.Config {
	var conns sync.WaitGroup
	t.Cleanup(conns.Wait)
	cfg := config("tcp://broker.example")
	cfg.Open = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		conns.Go(func() {
			defer theirs.Close()
			play(newPeer(theirs))
		})
		return ours, nil
	}
	return cfg
}

// dial connects, or ends the test.
func dial(t testing.TB, cfg mqttclient.Config) *mqttclient.Conn {
	t.Helper()
	c, err := mqttclient.Dial(await.Context(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// refusedAt dials, and wants it to fail at a step.
func refusedAt(t testing.TB, cfg mqttclient.Config, step mqttclient.Step) *mqttclient.DialError {
	t.Helper()
	c, err := mqttclient.Dial(t.Context(), cfg)
	if err == nil {
		c.Close()
		t.Fatalf("Dial succeeded, want an error at %s", step)
	}
	failed, ok := errors.AsType[*mqttclient.DialError](err)
	if !ok || failed.Step != step {
		t.Fatalf("Dial returns %v, want an error at %s", err, step)
	}
	return failed
}

// within waits for a channel to close.
func within(t testing.TB, what string, done <-chan struct{}) {
	t.Helper()
	await.Receive(t, what, done)
}

// contains reports an error whose text lacks something.
func contains(t testing.TB, what, have, want string) {
	t.Helper()
	if !strings.Contains(have, want) {
		t.Errorf("%s is %q, want %q in it", what, have, want)
	}
}

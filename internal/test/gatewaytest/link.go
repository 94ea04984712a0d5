package gatewaytest

import (
	"encoding/binary"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Link is another host behind a radio link, which delays each packet and may lose all of
// them for a while. Like [Host] it exists only inside [InNamespaces], and needs /dev/net/tun.
type Link struct {
	*Host

	delay atomic.Int64 // of one way, in nanoseconds
	dead  atomic.Bool

	mu     sync.Mutex // mu guards what follows
	passed map[uint16][]Segment
}

// Segment is what a TCP packet of the far host brought here.
type Segment struct {
	At  time.Time // when it was delivered
	End uint32    // the sequence number after its last byte; the end of a connection, or its reset, counts as one
}

// NewLink joins a far host to the test's own. n, 0 to 255, tells several apart.
func NewLink(t testing.TB, n int, delay time.Duration) *Link {
	t.Helper()
	l := &Link{Host: bareHost(t), passed: make(map[uint16][]Segment)}
	l.delay.Store(int64(delay))
	number := strconv.Itoa(n)
	l.Here, l.device = "10.78."+number+".1", "radio"+number
	near := openTUN(t, l.device)
	var far *os.File
	l.Do(func() { far = openTUN(t, l.device) })
	runProgram(t, "ip", "addr", "add", l.Here+"/24", "dev", l.device)
	runProgram(t, "ip", "link", "set", l.device, "up")
	l.Command("ip", "addr", "add", "10.78."+number+".2/24", "dev", l.device)
	l.Command("ip", "link", "set", l.device, "up")
	var carriers sync.WaitGroup
	carriers.Go(func() { l.carry(near, far, nil) })
	carriers.Go(func() { l.carry(far, near, l.note) })
	t.Cleanup(func() {
		_, _ = near.Close(), far.Close()
		carriers.Wait()
	})
	return l
}

// openTUN makes a device of IP packets in the network of the calling thread.
func openTUN(t testing.TB, name string) *os.File {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), name)
}

// packet is one that is on its way.
type packet struct {
	due   time.Time
	bytes []byte
}

// carry moves packets from one end of the link to the other until one is closed.
func (l *Link) carry(from, to *os.File, note func([]byte)) {
	way := make(chan packet, 4096) // what is more is lost
	var delivery sync.WaitGroup
	defer delivery.Wait()
	defer close(way)
	delivery.Go(func() {
		for p := range way {
			time.Sleep(time.Until(p.due)) // real time: the delay of the link
			if l.dead.Load() {
				continue
			}
			if note != nil {
				note(p.bytes)
			}
			_, _ = to.Write(p.bytes)
		}
	})
	for {
		b := make([]byte, 2048)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		select {
		case way <- packet{time.Now().Add(time.Duration(l.delay.Load())), b[:n]}:
		default:
		}
	}
}

// Delay changes the delay of packets to come, one way.
func (l *Link) Delay(d time.Duration) { l.delay.Store(int64(d)) }

// Die has the link lose every packet, also those on their way. Nobody is told.
func (l *Link) Die() { l.dead.Store(true) }

// Revive ends Die, and forgets which segments have passed.
func (l *Link) Revive() {
	l.mu.Lock()
	clear(l.passed)
	l.mu.Unlock()
	l.dead.Store(false)
}

// note keeps what a TCP packet over IPv4 of the far host brings.
func (l *Link) note(b []byte) {
	const fin, syn, rst = 1, 2, 4
	if len(b) < 40 || b[0]>>4 != 4 || b[9] != unix.IPPROTO_TCP {
		return
	}
	tcp := b[int(b[0]&15)*4:]
	size := len(tcp) - int(tcp[12]>>4)*4
	if tcp[13]&(fin|rst) != 0 {
		size++
	}
	if size == 0 || tcp[13]&syn != 0 {
		return
	}
	port := binary.BigEndian.Uint16(tcp)
	end := binary.BigEndian.Uint32(tcp[4:]) + uint32(size) //nolint:gosec // less than 2048
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passed[port] = append(l.passed[port], Segment{time.Now(), end})
}

// Passed returns the segments with data, or with the end of the connection, that have come
// from a port of the far host since [Link.Revive], in their order.
func (l *Link) Passed(port uint16) []Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Segment(nil), l.passed[port]...)
}

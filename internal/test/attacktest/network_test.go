package attacktest_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// One host with an IPv6 network of its own, or with many IPv4 addresses, opened each
// connection from another address: a newcomer evicted from the address that held most, which
// was the house's. Up to 76 % of the unlocks of six people behind one address were lost, and
// 96 % of the connections of 40 stations.
func TestAttack_manyAddresses(t *testing.T) {
	if !isolated(t) {
		return
	}
	f := newSiege(t, "GATEHOUSE_UNLOCK_ACCOUNT_RATE=0", // and fewer connections than the attacker keeps open
		"GATEHOUSE_MQTT_MAX_CONNECTIONS=1024", "GATEHOUSE_MQTT_MAX_CONNECTIONS_PER_ADDRESS=1024")
	f.logIn(6)
	stations := f.enrolMany(40)
	for kind, from := range map[string]source{"an IPv6 network": f.ownNetwork(), "200 IPv4 addresses": f.manyIPv4()} {
		for _, attack := range f.networkAttacks(from) {
			t.Run(kind+", "+attack.name, func(t *testing.T) {
				defer func(outer *testing.T) { f.t = outer }(f.t)
				f.t = t
				ctx, stop := context.WithCancel(t.Context())
				var attacking sync.WaitGroup
				defer attacking.Wait()
				defer stop()
				before := f.refusals(attack.evicts)
				attacking.Go(func() { attack.run(ctx) })
				await.Until(t, "connections of the attack are evicted", func() bool { return f.refusals(attack.evicts) > before })
				if http := attack.evicts == "http-connections"; http || gatewaytest.Torture() {
					f.expectUnlocks(6)
				}
				if mqtt := attack.evicts == "mqtt-connecting"; mqtt || gatewaytest.Torture() {
					f.expectStations(f.mqtt, nil, stations)
					f.expectStations(f.mqtts, insecure(), stations)
				}
			})
		}
	}
}

// networkAttack opens connections without end.
type networkAttack struct {
	name   string
	evicts string // the metric that shows that the gateway is full of them
	run    func(ctx context.Context)
}

// source dials from the next address of the attacking host.
type source func(ctx context.Context, address string) net.Conn

func (f *siege) networkAttacks(from source) []networkAttack {
	flood := func(name, evicts, address string, rate int, opening []byte) networkAttack {
		return networkAttack{name, evicts, func(ctx context.Context) {
			f.flood(ctx, rate, func() net.Conn {
				conn := from(ctx, address)
				if conn != nil {
					_, _ = conn.Write(opening)
				}
				return conn
			})
		}}
	}
	half := []byte{0x16, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3}
	return []networkAttack{
		flood("half hellos, 190 a second", "http-connections", f.aHTTPS, 190, half),
		flood("half hellos, 760 a second", "http-connections", f.aHTTPS, 760, half),
		{"answers not taken", "http-connections", func(ctx context.Context) {
			config := insecure()
			config.NextProtos = []string{"h2"}
			f.flood(ctx, 200, func() net.Conn {
				conn := from(ctx, f.aHTTPS)
				if conn == nil {
					return nil
				}
				_ = conn.SetDeadline(await.Deadline())
				secure := secured(ctx, conn, config)
				if secure != nil {
					answersNotTaken(secure)
				}
				return secure
			})
		}},
		flood("half CONNECTs", "mqtt-connecting", f.aMQTT, 1500, []byte{0x10, 50, 0, 4, 'M', 'Q', 'T', 'T'}),
		flood("half hellos to the broker", "mqtt-connecting", f.aMQTTSecured, 700, half),
	}
}

// flood opens so many connections a second, and keeps the newest 3,000 of them open.
func (f *siege) flood(ctx context.Context, rate int, open func() net.Conn) {
	var opening sync.WaitGroup
	defer opening.Wait()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	kept, slots := make(chan net.Conn, 3000), make(chan struct{}, 64)
	defer func() {
		opening.Wait()
		for len(kept) > 0 {
			_ = (<-kept).Close()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		opening.Go(func() {
			defer func() { <-slots }()
			conn := open()
			for conn != nil {
				select {
				case kept <- conn:
					return
				default:
				}
				select {
				case old := <-kept:
					_ = old.Close()
				default:
				}
			}
		})
	}
}

// ownNetwork routes a /64 to the attacking host and returns a source whose every connection
// comes from another address of it.
func (f *siege) ownNetwork() source {
	const network, gateway, host = "fd00:91:2:2", "fd00:91::1", "fd00:91::2"
	command(f.t, "ip", "-6", "addr", "add", gateway+"/64", "dev", "here2", "nodad")
	f.attacker.Command("ip", "-6", "addr", "add", host+"/64", "dev", "there", "nodad")
	f.attacker.Command("ip", "link", "set", "lo", "up")
	f.attacker.Command("ip", "-6", "route", "add", "local", network+"::/64", "dev", "lo")
	f.attacker.Command("ip", "-6", "route", "add", "default", "via", gateway)
	command(f.t, "ip", "-6", "route", "add", network+"::/64", "via", host)
	var last atomic.Uint32
	return func(ctx context.Context, address string) net.Conn {
		n := last.Add(1)
		return f.dialFrom(ctx, net.ParseIP(fmt.Sprintf("%s:1:%x:%x:1", network, n>>16, n&0xffff)), gateway, address)
	}
}

// manyIPv4 returns a source that uses 200 IPv4 addresses in turn.
func (f *siege) manyIPv4() source {
	f.attacker.Command("sh", "-c", "for n in $(seq 50 250); do ip addr add 10.77.2.$n/24 dev there; done")
	var last atomic.Uint32
	return func(ctx context.Context, address string) net.Conn {
		return f.dialFrom(ctx, net.IPv4(10, 77, 2, byte(50+last.Add(1)%200)), f.attacker.Here, address)
	}
}

// dialFrom connects the attacking host from one of its addresses; nil where that fails.
func (f *siege) dialFrom(ctx context.Context, from net.IP, gateway, address string) (conn net.Conn) {
	_, port, _ := net.SplitHostPort(address)
	d := net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: from}, Control: freebind}
	f.attacker.Do(func() { conn, _ = d.DialContext(ctx, "tcp", net.JoinHostPort(gateway, port)) })
	return conn
}

// freebind lets a socket have any address that is routed to this host.
func freebind(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
	})
}

// enrolMany enrols stations.
func (f *siege) enrolMany(n int) (logins []adminapi.MQTTLogin) {
	for i := range n {
		logins = append(logins, f.p.Enrol(site.StationID(i+1)).MQTT)
	}
	return logins
}

// refusals returns a counter of the gateway; 0 also where the flood leaves no room for that
// question.
func (f *siege) refusals(reason string) int {
	r, err := http.NewRequestWithContext(await.Context(f.t), http.MethodGet, f.p.HTTP+"/metrics", http.NoBody)
	if err != nil {
		f.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		f.t.Errorf("the answer was cut off: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"`+reason+`"`) {
			n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " "):]))
			if err != nil {
				f.t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// expectUnlocks has people unlock, half of them over a new connection each time: at most one
// in a hundred may fail.
func (f *siege) expectUnlocks(people int) {
	f.t.Helper()
	rounds := 10
	if gatewaytest.Torture() {
		rounds = 200
	}
	var all sync.WaitGroup
	var lost atomic.Int64
	var first atomic.Value
	for i := range people {
		all.Go(func() {
			for range rounds {
				status, body := f.do(f.phones[i], f.https, "/v1/stations/"+f.door.StationToken+"/locks/1/unlock", f.tokens[i], nil)
				if status != http.StatusOK || !strings.Contains(body, "true") {
					lost.Add(1)
					first.CompareAndSwap(nil, fmt.Sprint(status, " ", body))
				}
				if i%2 == 0 {
					f.phones[i].CloseIdleConnections()
				}
			}
		})
	}
	all.Wait()
	if n := lost.Load(); n > int64(people*rounds/100) {
		f.t.Errorf("%d of %d unlocks were lost: %v", n, people*rounds, first.Load())
	}
}

// expectStations connects stations, all at one moment from one address: at most one in a
// hundred may have to try again.
func (f *siege) expectStations(address string, secure *tls.Config, logins []adminapi.MQTTLogin) {
	f.t.Helper()
	rounds := 2
	if gatewaytest.Torture() {
		rounds = 20
	}
	lost := 0
	for range rounds {
		var all sync.WaitGroup
		var failed atomic.Int64
		for _, login := range logins {
			all.Go(func() {
				if !f.connects(address, secure, login) {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		lost += int(failed.Load())
	}
	if lost > rounds*len(logins)/100 {
		f.t.Errorf("%s: %d of %d connections of stations were lost", address, lost, rounds*len(logins))
	}
}

// connects reports whether a station comes online.
func (f *siege) connects(address string, secure *tls.Config, login adminapi.MQTTLogin) bool {
	conn := f.dial(f.house, 0, address)
	if conn == nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(await.Deadline())
	if secure != nil {
		conn = tls.Client(conn, secure)
	}
	return (&gatewaytest.Station{Conn: conn, Login: login, Version: 4}).TryOpen(1) == nil
}

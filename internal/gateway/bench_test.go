package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// BenchmarkGateway_Unlock drives the whole path over real sockets, for profiles of
// where its time goes; scripts/bench compares it with its floor.
func BenchmarkGateway_Unlock(b *testing.B) {
	const stations = 16
	g := gatewaytest.Start(b, gatewaytest.Configure(b))
	access, _ := g.Login()
	var issued []adminapi.IssuedStation
	for i := range stations {
		issued = append(issued, g.Enrol(site.StationID(i+1)))
		go answerAll(g.Dial(issued[i].MQTT))
		g.AwaitOnline(site.StationID(i+1), true)
	}
	var next atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", g.HTTP[len("http://"):])
		if err != nil {
			b.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		token := issued[int(next.Add(1))%stations].StationToken
		request := fmt.Appendf(nil, "POST /v1/stations/%s/locks/1/unlock HTTP/1.1\r\nHost: 192.0.2.1\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n", token, access)
		in := bufio.NewReader(conn)
		for pb.Next() {
			if _, err := conn.Write(request); err != nil {
				b.Error(err)
				return
			}
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				b.Error(err)
				return
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || !bytes.Contains(body, []byte("true")) {
				b.Errorf("%s, %v", body, err)
				return
			}
		}
	})
}

package update_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/install/update"
)

// A redirect from the server of an update made root try ports of the board itself. Now it
// leads to the internet, or to the host that the address of the update names.
func TestAttack_redirectInside(t *testing.T) {
	b := newBoard(t)
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var reached atomic.Int32
	target := httptest.NewUnstartedServer(http.NotFoundHandler())
	target.Listener.Close()
	target.Listener = inner
	target.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			reached.Add(1)
		}
	}
	target.Start()
	defer target.Close()
	_, port, _ := net.SplitHostPort(inner.Addr().String())
	to := ""
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }))
	defer origin.Close()
	for _, host := range []string{"localhost", "127.1.2.3", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::]", "169.254.169.254", "10.1.2.3", "192.168.1.1", "[fe80::1]", "[fd00::1]"} {
		to = "http://" + host + ":" + port + "/"
		if err := b.fetch(origin.URL + "/x.update"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "private network") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
	to = "http://127.0.0.1:" + port + "/" // which the address itself names
	if err := b.fetch(origin.URL + "/x.update"); err == nil || reached.Load() == 0 {
		t.Errorf("another port of the same host: %v", err)
	}
}

func TestIsPublic(t *testing.T) {
	for _, inside := range []string{
		"0.0.0.0", "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.1.1", "100.64.0.1", "192.0.0.8", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:10.0.0.1", "::10.0.0.1", "fe80::1", "fe80::1%eth0", "fd00::1", "fec0::1", "ff02::1", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:a00:1::1", "2001::1",
	} {
		if update.IsPublic(inside) {
			t.Errorf("%s counts as public", inside)
		}
	}
	for _, outside := range []string{"1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2001:4860::8888", "::ffff:1.1.1.1"} {
		if !update.IsPublic(outside) {
			t.Errorf("%s does not count as public", outside)
		}
	}
}

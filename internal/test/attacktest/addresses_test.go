package attacktest_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/gatewaytest"
)

// One node of a cluster behind one name that accepted TCP and then failed kept the gateway
// from all others: over a minute every attempt went to the same address.
func TestAttack_brokenNodeOfACluster(t *testing.T) {
	t.Parallel()
	if !isolated(t, "mosquitto") {
		return
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n127.0.0.2 cluster.test\n127.0.0.3 cluster.test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount("/etc/hosts", unix.MNT_DETACH) })
	broken, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	go func() {
		for {
			conn, err := broken.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1024)) // CONNECT
			_ = conn.Close()
		}
	}()
	_, port, err := net.SplitHostPort(broken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := brokertest.ListenProxy("127.0.0.3:"+port, brokertest.Mosquitto(t).Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_CLOUD_URL=tcp://cluster.test:" + port}})
	p.Await("the cloud link is up", func() bool {
		status, err := p.Admin.Status(t.Context())
		return err == nil && status.Cloud != nil && status.Cloud.Connected
	})
}

package doctor_test

import (
	"strings"
	"syscall"
	"testing"

	"gatehouse/internal/health"
)

func ofData() []illness {
	const (
		stopped = "fatal gateway: The gateway is stopped > systemctl start gatehouse"
		back    = "chown -R --reference=/var/lib/gatehouse /var/lib/gatehouse"
	)
	elsewhere := func(w *ward, data string) {
		w.stop()
		w.config = strings.Replace(configText, "/var/lib/gatehouse", data, 1)
		w.config = strings.Replace(w.config, `tls_listen = ["[::]:443"]`, "", 1)
	}
	foreign := func(w *ward, name string) { w.files["var/lib/gatehouse/"+name].Sys = &syscall.Stat_t{} }
	return []illness{
		{"open data", func(_ *testing.T, w *ward) { w.files["var/lib/gatehouse/token.key"].Mode = 0o640 }, []string{
			"warning data: Others may read the gateway's data > chmod -R go= /var/lib/gatehouse",
		}, "/var/lib/gatehouse/token.key has mode -rw-r-----"},
		{"foreign file", func(_ *testing.T, w *ward) { foreign(w, "gatehouse.db") }, []string{
			"warning data: Some of the data does not belong to the gateway's user, which cannot use it > " + back,
		}, "gatehouse.db is owned by user 0, and not 997"},
		{"foreign authority", func(_ *testing.T, w *ward) {
			foreign(w, "tls/ca.crt")
			w.status.Conditions = []health.Condition{{Code: health.CertificateInvalid, Severity: health.Warning, Summary: "No CA", Advice: "Mend it"}}
		}, []string{
			"warning data: Some of the data does not belong to the gateway's user, which cannot use it > " + back,
			"warning gateway: No CA > Mend it",
		}, "tls/ca.crt is owned by user 0, and not 997"},
		{"foreign file while it is stopped", func(_ *testing.T, w *ward) {
			w.stop()
			foreign(w, "gatehouse.db")
		}, []string{
			"fatal data: Some of the data does not belong to the gateway's user, which cannot use it > " + back + "; systemctl restart gatehouse", stopped, stationsUnknown,
		}, ""},
		{"foreign data", func(_ *testing.T, w *ward) { w.files["var/lib/gatehouse"].Sys = &syscall.Stat_t{} }, []string{
			"fatal data: The data does not belong to the gateway's user > chown -R gatehouse: /var/lib/gatehouse; systemctl restart gatehouse",
		}, ""},
		{"foreign data while it is stopped", func(_ *testing.T, w *ward) {
			w.stop()
			w.files["var/lib/gatehouse"].Sys = &syscall.Stat_t{}
		}, []string{
			"fatal data: The data does not belong to the gateway's user > chown -R gatehouse: /var/lib/gatehouse; systemctl restart gatehouse", stopped, stationsUnknown,
		}, ""},
		{"outside of the sandbox", func(_ *testing.T, w *ward) {
			elsewhere(w, "/srv/gatehouse")
			w.unit()["ReadWritePaths"] = "-/srv/gate /srv/other"
		}, []string{
			"fatal data: The gateway may not write where its data is configured to be > systemctl edit gatehouse, and write: [Service], ReadWritePaths=/srv/gatehouse, each on a line; then systemctl restart gatehouse",
			stopped, stationsUnknown,
		}, "it may write to: /var/lib/gatehouse, /srv/gate, /srv/other"},
		{"allowed by the sandbox", func(_ *testing.T, w *ward) {
			elsewhere(w, "/srv/gatehouse")
			w.unit()["ReadWritePaths"] = "-/srv"
		}, []string{stopped, stationsUnknown}, ""},
		{"not locked in", func(_ *testing.T, w *ward) {
			elsewhere(w, "/srv/gatehouse")
			w.unit()["ProtectSystem"] = "full"
		}, []string{stopped, stationsUnknown}, ""},
		{"below the state directory", func(_ *testing.T, w *ward) { elsewhere(w, "/var/lib/gatehouse/more") }, []string{stopped, stationsUnknown}, ""},
		{"in a home", func(_ *testing.T, w *ward) {
			elsewhere(w, "/home/pi/gatehouse")
			w.unit()["ReadWritePaths"] = "/home/pi"
		}, []string{
			"fatal data: The data is configured to be in /home, which services do not see > move it elsewhere, such as to /srv/gatehouse, and set data in the configuration; " +
				"systemctl edit gatehouse, and write: [Service], ReadWritePaths=/srv/gatehouse, each on a line; then systemctl restart gatehouse",
			stopped, stationsUnknown,
		}, ""},
		{"outside of the sandbox at the next start", func(_ *testing.T, w *ward) {
			w.config = strings.Replace(configText, "/var/lib/gatehouse", "/srv/gatehouse", 1)
		}, []string{
			"fatal data: The gateway may not write where its data is configured to be > systemctl edit gatehouse, and write: [Service], ReadWritePaths=/srv/gatehouse, each on a line; then systemctl restart gatehouse",
		}, "data is /srv/gatehouse"},
	}
}

func ofFirstBoot() []illness {
	const read = "read gatehouse-result.txt beside the site file; mend it; systemctl start gatehouse-site"
	fail := func(w *ward) {
		w.units["gatehouse-site.service"]["ActiveState"] = "failed"
		w.units["gatehouse-site.service"]["Result"], w.units["gatehouse-site.service"]["ExecMainStatus"] = "exit-code", "1"
	}
	list := []illness{
		{
			"first boot failed", func(_ *testing.T, w *ward) {
				fail(w)
				w.put("/boot/firmware/gatehouse-site.toml", "", 0o644, 0)
				w.put("/boot/firmware/gatehouse-result.txt", "", 0o644, 0)
			},
			[]string{"warning first boot: The first boot failed: the site file was not applied > " + read},
			"first boot: /boot/firmware/gatehouse-site.toml waits\nfirst boot: /boot/firmware/gatehouse-result.txt says how it went\n" +
				"first boot: gatehouse-site.service: its last end was exit-code, status 1\n",
		},
		{"first boot failed, and the file is gone", func(_ *testing.T, w *ward) { fail(w) }, []string{
			"warning first boot: The first boot failed > " + read + "; if it was done since, systemctl reset-failed gatehouse-site",
		}, ""},
		{"first boot cut", func(_ *testing.T, w *ward) { w.put("/etc/gatehouse/first-boot.state", "{}", 0o600, 0) }, []string{
			"warning first boot: A first boot did not come to its end, and its site file is gone > put the site file back; systemctl start gatehouse-site; or, if all is set up, rm /etc/gatehouse/first-boot.state",
		}, "/etc/gatehouse/first-boot.state is left"},
		{"first boot under way", func(_ *testing.T, w *ward) {
			w.units["gatehouse-site.service"]["ActiveState"] = "activating"
			w.put("/boot/gatehouse-site.toml", "", 0o644, 0)
		}, []string{"notice first boot: The site file is being applied > wait some minutes, then sudo gatehouse doctor"}, ""},
	}
	for _, file := range []string{"/boot/firmware/gatehouse-site.toml", "/boot/efi/gatehouse-site.toml.txt", "/boot/gatehouse-site.toml", "/etc/gatehouse/gatehouse-site.toml"} {
		list = append(list, illness{"site file waits in " + file, func(_ *testing.T, w *ward) { w.put(file, "", 0o644, 0) }, []string{
			"warning first boot: A site file waits, and was not applied > " + read,
		}, file + " waits"})
	}
	return list
}

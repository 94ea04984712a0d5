package certificate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// lookEvery is how often files, addresses and time are checked. It costs reading two
// small files from the page cache and one request to the kernel.
const lookEvery = 20 * time.Second

// Config is what [New] needs.
type Config struct {
	Folder      string        // where the gateway's own CA and certificate are kept; created if missing
	Certificate string        // path of a PEM file, the chain with the gateway's own first; "": the gateway makes its own
	Key         string        // path of the PEM file of its private key; "" with it
	Name        string        // of the gateway; in the certificate where it can be a host name
	Hostname    string        // of the machine
	Published   func() string // NAME where NAME.local finds the machine, "" for none; called every 20 s
	GatewayID   site.GatewayID
	Clock       site.Clock
	System      func() (now time.Time, synchronised bool) // the system's own time, of which the clock may be ahead
	Addresses   func() []netip.Addr                       // at which others reach the machine, sorted, without temporary and link-local ones; called every 20 s
	Logger      *slog.Logger
	Health      *health.Registry
}

// Keeper keeps the certificate of the TLS listeners. Safe for concurrent use.
type Keeper struct {
	cfg    Config
	served atomic.Pointer[served] // never nil after New

	mu       sync.Mutex // one look at a time: mu guards what follows. Handshakes never wait for it
	given    *given     // nil without given files
	own      *own
	standing []problem
}

// New reads or makes the certificate. It fails only where no certificate can be made:
// what is wrong with files becomes a condition, and there is a certificate to serve.
// Use [Check] to validate files first.
func New(cfg Config) (*Keeper, error) {
	return newKeeper(cfg, func(string) error { return nil })
}

func newKeeper(cfg Config, step func(string) error) (*Keeper, error) {
	k := &Keeper{cfg: cfg, own: &own{
		folder: folder{cfg.Folder, step}, id: cfg.GatewayID, followed: rate.NewLimiter(rate.Every(followEvery), followMost),
	}}
	if cfg.Certificate != "" || cfg.Key != "" {
		k.given = &given{cfg.Certificate, cfg.Key}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look()
	if k.served.Load() == nil { // no file can do that
		return nil, k.standing[0]
	}
	return k, nil
}

// TLS returns the configuration of a listener. Each handshake uses the certificate that
// is current then.
func (k *Keeper) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.served.Load().pair, nil },
	}
}

// Info describes the certificate in use.
func (k *Keeper) Info() Info {
	info := k.served.Load().info
	info.Names, info.Addresses = slices.Clone(info.Names), slices.Clone(info.Addresses)
	return info
}

// CA returns the certificate of the gateway's own CA as PEM, for clients that are to trust
// it; nil where the certificate in use is not signed by it, or where it is not kept.
func (k *Keeper) CA() []byte { return bytes.Clone(k.served.Load().ca) }

// Run renews the certificate, reads changed files and retries what failed, until ctx
// ends. It never fails; call it once.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			k.mu.Lock()
			k.look()
			k.mu.Unlock()
		}
	}
}

// Reload takes the two files, or the gateway's own certificate where both are "", and
// reads everything again. An error of kind Invalid names what is wrong with the given
// files; then nothing changes. What is wrong with the gateway's own becomes a condition.
func (k *Keeper) Reload(certificate, key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if certificate == "" && key == "" {
		k.given = nil
		k.own.reread()
		k.look()
		return nil
	}
	if err := Check(certificate, key); err != nil {
		return err
	}
	k.given = &given{certificate, key}
	k.look()
	return nil
}

// look compares what there is with what should be, and acts on the difference.
func (k *Keeper) look() {
	w := k.wanted()
	var next *served
	var errs []error
	if k.given != nil {
		next, errs = k.lookAtGiven(w)
	} else {
		errs = k.own.look(w)
		if k.own.server.leaf != nil {
			next = k.own.serve()
		}
	}
	k.exchange(next)
	var found []problem
	for _, err := range errs {
		if err != nil {
			found = append(found, problemOf(err))
		}
	}
	if s := k.served.Load(); s != nil {
		found = append(found, ending(s, k.given, w)...)
	}
	if k.given == nil {
		found = append(found, k.own.dated(w)...)
	}
	k.report(found)
}

// wanted returns what the gateway's own certificate should contain now.
func (k *Keeper) wanted() wanted {
	now := k.cfg.Clock.Now().Round(0).UTC()
	w := wanted{
		now: now, trusted: k.cfg.Clock.Trusted() && plausible(now), name: cmp.Or(k.cfg.Name, k.cfg.Hostname),
		dns: dnsNames(k.cfg.Hostname, k.cfg.Name), ips: addresses(k.cfg.Addresses()),
	}
	w.found = slices.DeleteFunc([]string{k.cfg.Published() + ".local"}, func(name string) bool {
		return !isHostName(name) || slices.Contains(w.dns, name)
	})
	w.earliest, w.sure = now, w.trusted
	if system, synchronised := k.cfg.System(); !w.trusted && plausible(system) && system.Before(now) {
		w.earliest, w.sure = system.Round(0).UTC(), synchronised
	}
	return w
}

// lookAtGiven returns what is in the given files. If they cannot be used, the last good
// ones stay in use; at the start there is a certificate for this run.
func (k *Keeper) lookAtGiven(w wanted) (next *served, errs []error) {
	pair, err := k.given.load()
	switch {
	case err == nil:
		return &served{pair: pair, info: infoOf(Given, pair.Leaf)}, nil
	case k.served.Load() != nil:
		return nil, []error{err}
	}
	made, failed := server{}.renew(authority{}, w, w.ips)
	if failed != nil {
		return nil, []error{err, failed}
	}
	return made.serve(), []error{err}
}

// exchange puts the certificate into use, and logs it if it is a new one.
func (k *Keeper) exchange(next *served) {
	before := k.served.Load()
	if next == nil {
		return
	}
	k.served.Store(next)
	if before != nil && before.info.Fingerprint == next.info.Fingerprint {
		return
	}
	level := slog.LevelInfo
	if next.info.Source == Passing {
		level = slog.LevelWarn
	}
	k.cfg.Logger.Log(context.Background(), level, "certificate in use", "from", next.info.Source,
		"names", next.info.Names, "addresses", next.info.Addresses, "not_after", site.At(next.info.NotAfter), "fingerprint", next.info.Fingerprint)
}

// report raises what is wrong as conditions, and clears those that have ended. It logs
// what is new.
func (k *Keeper) report(found []problem) {
	for _, code := range []health.Code{invalid, expiring, notKept, dated} {
		is := func(p problem) bool { return p.code == code }
		if i := slices.IndexFunc(found, is); i >= 0 {
			k.cfg.Health.Raise(found[i].condition())
		} else {
			k.cfg.Health.Clear(code)
		}
	}
	for _, p := range found {
		if !slices.ContainsFunc(k.standing, func(old problem) bool { return old.code == p.code && old.summary == p.summary }) {
			k.cfg.Logger.Warn("the certificate needs attention", "error", p)
		}
	}
	k.standing = found
}

package gateway

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"gatehouse/internal/board/certificate"
	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// buildCertificate gets what the TLS listeners show, where there are any.
func (g *Gateway) buildCertificate(context.Context) error {
	if !g.usesTLS() {
		return nil
	}
	cert, key, err := certificateFiles(g.cfg)
	if err != nil { // no reason to keep doors shut: the keeper continues without the files, and reports it
		g.log.Error("the certificate files cannot be found", "error", err)
		cert, key = g.cfg.TLS.Certificate, g.cfg.TLS.Key
	}
	hostname, err := os.Hostname()
	if err != nil {
		g.log.Warn("the certificate goes without the name of this machine", "error", err)
	}
	g.keeper, err = certificate.New(certificate.Config{
		Folder: certificateFolder(g.cfg.Data), Certificate: cert, Key: key,
		Name: g.cfg.Name, Hostname: hostname, Published: g.publishedName, GatewayID: g.id,
		Clock: g.clock, System: g.clock.System, Addresses: machine.Addresses, Logger: g.log, Health: g.conditions,
	})
	if err != nil {
		return err
	}
	g.shown.Store(g.keeper.TLS())
	return nil
}

// certificateFiles returns the files that the configuration names, or "" twice.
func certificateFiles(cfg config.Config) (cert, key string, err error) {
	if cert, err = machine.CredentialPath(cfg.TLS.Certificate); err != nil {
		return "", "", fault.Wrap(fault.Invalid, "tls.certificate: "+err.Error(), err)
	}
	if key, err = machine.CredentialPath(cfg.TLS.Key); err != nil {
		return "", "", fault.Wrap(fault.Invalid, "tls.key: "+err.Error(), err)
	}
	return cert, key, nil
}

// CheckCertificate reports whether the certificate files that a configuration names
// can be used; nil where it names none. Of credentials it sees the sources where it may
// read them: what systemd made of them belongs to the running gateway. Errors: Invalid.
func CheckCertificate(cfg config.Config) error {
	cert, handedOver := machine.CredentialSource(cfg.TLS.Certificate)
	key, too := machine.CredentialSource(cfg.TLS.Key)
	if cert == "" {
		return nil
	}
	for _, path := range []string{cert, key} {
		if _, err := os.ReadFile(path); (handedOver || too) && errors.Is(err, fs.ErrPermission) { //nolint:gosec // the administrator's
			return nil
		}
	}
	return certificate.Check(cert, key)
}

// certificateInfo returns what is known of the certificate; nothing without any TLS listener.
func (g *Gateway) certificateInfo() (info certificate.Info) {
	if g.keeper != nil {
		info = g.keeper.Info()
	}
	return info
}

// certificateStatus describes what the TLS listeners show; nil without any.
func (g *Gateway) certificateStatus() *adminapi.CertificateStatus {
	if g.keeper == nil {
		return nil
	}
	info := g.certificateInfo()
	names := info.Names
	for _, addr := range info.Addresses {
		names = append(names, addr.String())
	}
	return &adminapi.CertificateStatus{
		Names: names, NotAfter: site.At(info.NotAfter), Fingerprint: info.Fingerprint,
		AuthorityFingerprint: info.CAFingerprint, Own: info.Source != certificate.Given,
	}
}

// names returns the names by which clients may address this gateway.
func (g *Gateway) names() []string {
	all := []string{g.cfg.HostName(), g.cfg.HostName() + ".local"}
	if name := g.networkName(); name != "" {
		all = append(all, name, name+".local")
	}
	return append(all, g.certificateInfo().Names...)
}

// authority returns the certificate of the gateway's own authority as PEM, or nil.
func (g *Gateway) authority() []byte {
	if g.keeper == nil {
		return nil
	}
	return g.keeper.CA()
}

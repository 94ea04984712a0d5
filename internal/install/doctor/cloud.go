package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/web/adminapi"
)

const (
	// systemRoots is where Debian keeps the authorities that everybody trusts.
	systemRoots = "/etc/ssl/certs/ca-certificates.crt"
	// tryCloud shows at which step the link fails.
	tryCloud = "gatehouse cloud test"
)

// checkCloud looks at what the cloud link needs, and how it stands.
func checkCloud(ctx context.Context, p *patient, s *sheet) {
	c := p.settings.Cloud
	switch {
	case p.runs() && p.status.Cloud != nil && (p.broken != nil || c.URL == ""):
		if p.broken == nil {
			s.warn("The gateway that runs has a cloud link, which the configuration names no more: it still takes commands and hands records up",
				p.told("reload"), "broker "+p.status.Cloud.URL)
		}
		reportCloud(p.status.Cloud, p.status.Cloud.URL, p, s)
		return
	case p.broken != nil && p.runs():
		s.fine("The gateway that runs has no cloud link; nothing depends on one")
		return
	case p.broken != nil:
		s.skip("the configuration, which says whether there is a cloud, cannot be used", "")
		return
	case c.URL == "":
		s.fine("There is no cloud link; nothing depends on one")
		return
	}
	checkCloudFiles(ctx, p, s)
	if len(c.Keys) == 0 {
		s.notice("No key is trusted: commands from the cloud are refused", "gatehouse cloud keygen, and its line into keys of [cloud]", "keys is empty")
	}
	if !p.runs() {
		s.fine("It is configured; whether it connects says the gateway, which does not answer", "broker "+c.URL)
		return
	}
	reportCloud(p.status.Cloud, c.URL, p, s)
}

// reportCloud hands on what the gateway says of its link.
func reportCloud(link *adminapi.CloudStatus, url string, p *patient, s *sheet) {
	if link == nil || link.URL != url {
		s.notice("The gateway that runs goes by another [cloud] than the configuration has", p.told("reload"), "broker "+url)
		return
	}
	evidence := []string{
		"broker " + link.URL,
		fmt.Sprintf("delivered up to record %d, %d wait", link.Delivered, link.Waiting),
		"last delivery " + moment(link.LastDelivery.Time),
	}
	if !link.Connected {
		if link.Error != "" {
			evidence = append(evidence, link.Error)
		}
		s.notice("The cloud link is down since "+moment(link.Since.Time)+"; doors go on working", tryCloud, evidence...)
		return
	}
	if link.Refuses != "" {
		s.warn(link.Refuses, link.RefusesAdvice, evidence...)
		return
	}
	s.fine("It is connected since "+moment(link.Since.Time), evidence...)
}

// checkCloudFiles looks at the files that [cloud] names.
func checkCloudFiles(ctx context.Context, p *patient, s *sheet) {
	c := p.settings.Cloud
	for _, file := range []struct{ key, path string }{
		{"password_file", c.PasswordFile}, {"ca", c.CA}, {"certificate", c.Certificate}, {"key", c.Key},
	} {
		if file.path == "" {
			continue
		}
		path := credential(file.path)
		text, err := p.read(ctx, path)
		switch {
		case err == nil && file.key == "certificate":
			checkCloudCertificate(p, s, path, text)
		case err == nil:
		case errors.Is(err, fs.ErrPermission):
			s.denied(path, err)
		default:
			s.warn("The cloud link cannot read "+file.key, "put it there, or correct "+file.key+" in [cloud]", path+": "+sentence(err))
		}
	}
	if broker, err := mqttclient.ParseURL(c.URL); err == nil && broker.TLS && c.CA == "" {
		if _, err := p.Machine.Read(systemRoots); errors.Is(err, fs.ErrNotExist) {
			s.warn("This system knows no certificate authorities, so that no broker's certificate can be checked",
				"apt-get install ca-certificates, or name the broker's authority as ca in [cloud]", systemRoots+" is missing")
		}
	}
}

// checkCloudCertificate looks at how long the client certificate lasts.
func checkCloudCertificate(p *patient, s *sheet, path string, text []byte) {
	certificate, err := firstCertificate(text)
	if err != nil {
		s.warn("The client certificate of the cloud link cannot be used", "put a PEM file there", path+": "+err.Error())
		return
	}
	evidence := path + " is valid until " + moment(certificate.NotAfter)
	switch left := certificate.NotAfter.Sub(p.Machine.Now()); {
	case left <= 0:
		s.warn("The client certificate of the cloud link has expired", "put a new one in its place; the next connection takes it", evidence)
	case left < givenLate:
		s.warn("The client certificate of the cloud link expires in "+span(left), "put a new one in its place; the next connection takes it", evidence)
	}
}

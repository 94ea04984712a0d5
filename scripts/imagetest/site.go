package main

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"os"
	"strings"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
)

const (
	siteName     = "north-gate" // what the site file calls the gateway
	siteStations = 4            // how many stations most sites of the test have
)

// siteFile is what an installer would have put on the boot partition.
type siteFile struct {
	email, password string
	admin, word     string // the administrator and their password
	stations        []siteStation
}

type siteStation struct {
	id            site.StationID
	secret, token string
}

// newSite makes a site with so many stations.
func newSite(stations int) siteFile {
	s := siteFile{
		email: "porter@example.test", password: secret(),
		admin: "admin@example.test", word: secret(),
	}
	for i := range stations {
		s.stations = append(s.stations, siteStation{id: site.StationID(1042 + i), secret: secret(), token: secret()})
	}
	return s
}

// secret returns 26 random characters.
func secret() string {
	raw := make([]byte, 20)
	_, _ = rand.Read(raw) // never fails
	return base32.StdEncoding.EncodeToString(raw)[:26]
}

// secrets are the words that must not stay on the boot partition.
func (s siteFile) secrets() []string {
	all := []string{s.password, s.word}
	for _, station := range s.stations {
		all = append(all, station.secret, station.token)
	}
	return all
}

func (s siteFile) write(file string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "name = %q\ntimezone = \"Europe/Berlin\"\n", siteName)
	b.WriteString("\n[unlock]\naccount_rate = 0\naccount_pending = 0\n") // one account makes all of the load
	account := "\n[[account]]\nemail = %q\npassword = %q\nadmin = %t\n"
	fmt.Fprintf(&b, account, s.email, s.password, false)
	fmt.Fprintf(&b, account, s.admin, s.word, true)
	for _, station := range s.stations {
		fmt.Fprintf(&b, "\n[[station]]\nid = %d\nlocks = 2\nsecret = %q\ntoken = %q\n", station.id, station.secret, station.token)
		fmt.Fprintf(&b, "\n[[grant]]\naccount = %q\nstations = [%d]\n", s.email, station.id)
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

// members returns the stations as the hardware that they are.
func (s siteFile) members() []stationsim.Member {
	var all []stationsim.Member
	for _, station := range s.stations {
		all = append(all, stationsim.Member{ID: station.id, Locks: 2, Secret: site.Secret(station.secret)})
	}
	return all
}

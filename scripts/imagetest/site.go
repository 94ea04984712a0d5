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
	Email, Password string
	Admin, Word     string // the administrator and their password
	Stations        []siteStation
}

type siteStation struct {
	ID            site.StationID
	Secret, Token string
}

// newSite makes a site with so many stations.
func newSite(stations int) siteFile {
	s := siteFile{
		Email: "porter@example.test", Password: secret(),
		Admin: "admin@example.test", Word: secret(),
	}
	for i := range stations {
		s.Stations = append(s.Stations, siteStation{ID: site.StationID(1042 + i), Secret: secret(), Token: secret()})
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
	all := []string{s.Password, s.Word}
	for _, station := range s.Stations {
		all = append(all, station.Secret, station.Token)
	}
	return all
}

func (s siteFile) write(file string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "name = %q\ntimezone = \"Europe/Berlin\"\n", siteName)
	b.WriteString("\n[unlock]\naccount_rate = 0\naccount_pending = 0\nttl = \"60s\"\n") // one account makes all of the load, on a slow board
	account := "\n[[account]]\nemail = %q\npassword = %q\nadmin = %t\n"
	fmt.Fprintf(&b, account, s.Email, s.Password, false)
	fmt.Fprintf(&b, account, s.Admin, s.Word, true)
	for _, station := range s.Stations {
		fmt.Fprintf(&b, "\n[[station]]\nid = %d\nlocks = 2\nsecret = %q\ntoken = %q\n", station.ID, station.Secret, station.Token)
		fmt.Fprintf(&b, "\n[[grant]]\naccount = %q\nstations = [%d]\n", s.Email, station.ID)
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

// members returns the stations as the hardware that they are.
func (s siteFile) members() []stationsim.Member {
	var all []stationsim.Member
	for _, station := range s.Stations {
		all = append(all, stationsim.Member{ID: station.ID, Locks: 2, Secret: site.Secret(station.Secret)})
	}
	return all
}

// Package timezone finds time zones by their IANA name, on a system that carries none
// of its own too, as boards often do. It holds a copy of the database that comes with
// Go, a quarter as large as package time/tzdata, because it is compressed.
package timezone

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// zones is the copy: for each zone a line "NAME LENGTH" and that many bytes of its
// TZif data (RFC 9636), all of it compressed. "go run ./scripts/timezones" makes it.
//
//go:embed zones.gz
var zones []byte

// Load gives the zone of an IANA name such as "Europe/Berlin": as the system knows it,
// else as the copy does. "" is UTC and "Local" the system's own, as for
// [time.LoadLocation], whose errors it gives.
func Load(name string) (*time.Location, error) {
	location, err := time.LoadLocation(name)
	if err == nil {
		return location, nil
	}
	data, found := embedded(name)
	if found != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(name, data)
}

// errUnknown is that the copy has no such zone.
var errUnknown = errors.New("unknown time zone")

// embedded gives the data of a zone out of the copy.
func embedded(name string) ([]byte, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(zones))
	if err != nil {
		return nil, err
	}
	all := bufio.NewReader(unpacked)
	for {
		line, err := all.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil, errUnknown
		}
		zone, digits, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		length, damaged := strconv.Atoi(digits)
		if err := errors.Join(err, damaged); err != nil {
			return nil, err
		}
		if zone == name {
			data := make([]byte, length)
			_, err := io.ReadFull(all, data)
			return data, err
		}
		if _, err := all.Discard(length); err != nil {
			return nil, err
		}
	}
}

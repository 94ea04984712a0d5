package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

const listed = `{"$schema":"http://cyclonedx.org/schema/bom-1.6.schema.json","bomFormat":"CycloneDX","specVersion":"1.6",
"serialNumber":"urn:uuid:SERIAL","version":1,"metadata":{"timestamp":"2026-11-23T12:00:SECONDZ",
"tools":{"components":[{"name":"syft","version":"[not provided]"}]},"component":{"type":"file","name":"gatehouse","version":"1"}},
"components":[{"name":"gatehouse","version":"UNKNOWN","purl":"pkg:golang/gatehouse"},
{"name":"libc6","version":"2.41","purl":"pkg:deb/debian/libc6@2.41","licenses":[{"license":{"id":"MIT","url":"file:///home/x/LICENSE"}},
{"license":{"id":"ISC","url":"https://example.test/isc"}}]}]}`

func list(serial, second string) []byte {
	return []byte(strings.NewReplacer("SERIAL", serial, "SECOND", second).Replace(listed))
}

func TestSettle(t *testing.T) {
	o := options{version: "1.2.3", tool: "v1.44.0", time: time.Unix(1700000000, 0).UTC()}
	first, err := o.settle(list("7865f1c9-2944-41c2-a357-0355288e229f", "01"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := o.settle(list("d06dd398-5d6b-45c9-9b3e-89b6d2612275", "02"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("two lists of the same components differ:\n%s\n%s", first, second)
	}
	for _, want := range []string{
		`"timestamp": "2023-11-14T22:13:20Z"`, `"version": "1.44.0"`, `"purl": "pkg:golang/gatehouse",` + "\n" + `   "version": "1.2.3"`,
		`"version": "2.41"`, `https://example.test/isc`,
	} {
		if !strings.Contains(string(first), want) {
			t.Errorf("the list has no %s:\n%s", want, first)
		}
	}
	if strings.Contains(string(first), "/home/x") {
		t.Errorf("the list names a file of this machine:\n%s", first)
	}
	other, err := o.settle(bytes.Replace(list("d06dd398-5d6b-45c9-9b3e-89b6d2612275", "02"), []byte("2.41"), []byte("2.42"), 1))
	if err != nil {
		t.Fatal(err)
	}
	if serial(first) == "" || serial(first) == serial(other) {
		t.Errorf("lists of other components have the serial number %s", serial(other))
	}
}

// serial returns the line of the serial number.
func serial(list []byte) string {
	for line := range strings.Lines(string(list)) {
		if strings.Contains(line, "serialNumber") {
			return line
		}
	}
	return ""
}

func TestSettle_refuses(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":          "hello",
		"SPDX":             `{"spdxVersion":"SPDX-2.3"}`,
		"a field unknown":  strings.Replace(listed, `"version":1,`, `"version":1,"annotations":[],`, 1),
		"nothing named":    `{"bomFormat":"CycloneDX","metadata":{}}`,
		"another document": `{"bomFormat":"Other","metadata":{"component":{}}}`,
	} {
		if _, err := (options{}).settle([]byte(text)); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

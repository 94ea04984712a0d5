package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
)

// settleBOM rewrites a list of components, as syft made it in CycloneDX, so that the
// same release has the same bytes: with the time of the release in place of the present,
// and a serial number made from the content in place of a random one. It adds the
// versions that syft cannot know: its own, and that of the product.
func settleBOM(o options) error {
	path := o.rest[0]
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	settled, err := o.settle(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, settled, 0o644) //nolint:gosec // it is to be published
}

// bom has the fields of CycloneDX that are rewritten; what else the list has stays.
type bom struct {
	Schema     string           `json:"$schema"`
	Format     string           `json:"bomFormat"`
	Spec       string           `json:"specVersion"`
	Serial     string           `json:"serialNumber,omitempty"`
	Version    int              `json:"version"`
	Metadata   metadata         `json:"metadata"`
	Components []map[string]any `json:"components"`
	Depends    json.RawMessage  `json:"dependencies,omitempty"`
}

type metadata struct {
	Time  time.Time `json:"timestamp"`
	Tools struct {
		Components []map[string]any `json:"components"`
	} `json:"tools"`
	Component map[string]any `json:"component"`
}

func (o options) settle(text []byte) ([]byte, error) {
	var b bom
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&b); err != nil {
		return nil, err
	}
	if b.Format != "CycloneDX" || b.Metadata.Component == nil {
		return nil, fmt.Errorf("it is no list in CycloneDX with a component that it is of")
	}
	b.Metadata.Time = o.time
	b.Metadata.Component["type"], b.Metadata.Component["version"] = "firmware", o.version
	for _, tool := range b.Metadata.Tools.Components {
		tool["version"] = strings.TrimPrefix(o.tool, "v")
	}
	for _, component := range b.Components {
		if component["purl"] == "pkg:golang/gatehouse" {
			component["version"] = o.version
		}
		dropPlaces(component["licenses"])
	}
	b.Serial = ""
	unnumbered, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	b.Serial = uuid.NewSHA1(uuid.NameSpaceURL, unnumbered).URN()
	settled, err := json.MarshalIndent(b, "", " ")
	return append(settled, '\n'), err
}

// dropPlaces removes from licences where on this machine their texts were read.
func dropPlaces(licences any) {
	list, _ := licences.([]any)
	for _, entry := range list {
		entry, _ := entry.(map[string]any)
		licence, _ := entry["license"].(map[string]any)
		if place, _ := licence["url"].(string); strings.HasPrefix(place, "file:") {
			delete(licence, "url")
		}
	}
}

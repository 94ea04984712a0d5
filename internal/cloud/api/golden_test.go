package api_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
)

// Tokens that other programs have made, with the key of RFC 8037, appendix A.
func TestKeyring_Verify_golden(t *testing.T) {
	ring, err := api.NewKeyring([]string{keyID + " 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})
	if err != nil {
		t.Fatal(err)
	}
	base := api.Command{Gateway: gateway, Name: "unlock", Station: 1042, Lock: 1, IssuedAt: noon().UTC(), KeyID: keyID}
	shell, node, python := base, base, base
	shell.ID, shell.Actor, shell.Expires = "0190c8a0-1111-7000-8000-000000000001", "porter@example.test", noon().UTC().Add(30*time.Second)
	node.ID, node.Actor, node.Expires = "n-1", "Pförtnerin 🚪", noon().UTC().Add(time.Minute)
	python.ID, python.Actor, python.Expires = "py 1", "Pförtnerin", noon().UTC().Add(30750*time.Millisecond)
	python.IssuedAt = noon().UTC().Add(250 * time.Millisecond)
	for name, want := range map[string]api.Command{"shell": shell, "node": node, "python": python} {
		token, err := os.ReadFile("testdata/" + name + ".jwt")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ring.Verify(token, gateway, noon()); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		token = bytes.TrimSpace(token)
		for i := range token { // every byte counts
			broken := bytes.Clone(token)
			broken[i] ^= 1
			if got, err := ring.Verify(broken, gateway, noon()); err == nil {
				t.Fatalf("%s with byte %d changed is taken: %+v", name, i, got)
			}
		}
	}
}

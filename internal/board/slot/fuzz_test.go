package slot_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"reflect"
	"testing"

	"gatehouse/internal/board/slot"
)

// FuzzUBootVariables parses any file as U-Boot's variables, with a right sum too:
// whatever it is, a variable can be set in it, and all others stay as they are.
func FuzzUBootVariables(f *testing.F) {
	golden, err := os.ReadFile("testdata/ubootefi.var")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(golden[:24])
	f.Add(golden[:80])
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) >= 24 {
			file = bytes.Clone(file)
			copy(file, golden[:16])
			binary.LittleEndian.PutUint32(file[16:], uint32(len(file)))
			binary.LittleEndian.PutUint32(file[20:], crc32.ChecksumIEEE(file[24:]))
		}
		const name = "LoaderEntryOneShot"
		before, whole := slot.Variables(file)
		if !whole && before != 0 {
			t.Fatalf("a damaged file has %d variables", before)
		}
		with := slot.SetVariable(file, name, []byte("value"))
		if got, whole := slot.Variable(with, name); !whole || string(got) != "value" {
			t.Fatalf("%q, whole: %t", got, whole)
		}
		without := slot.SetVariable(with, name, nil)
		if got, whole := slot.Variable(without, name); !whole || got != nil {
			t.Fatalf("%q is left, whole: %t", got, whole)
		}
		others := slot.Others(file, name)
		if !bytes.HasPrefix(with[24:], others) || !bytes.HasPrefix(without[24:], others) || len(without)-24-len(others) > 7 {
			t.Fatalf("other variables have changed: %x, were %x", without, others)
		}
	})
}

// FuzzUpdateRequest parses any text as a request to root: what is taken is well formed, and the
// same when the gateway asks for it.
func FuzzUpdateRequest(f *testing.F) {
	for _, r := range requests() {
		text, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := slot.ParseRequest(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := slot.ParseRequest(again); err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("%s: %+v, %v, want %+v", again, got, err, r)
		}
	})
}

// The file was made by Debian's U-Boot 2023.01 for qemu_arm64, with its commands
// setenv -e -nv -bs -rt; our file was read by it, with all variables.
func TestUBootVariables_golden(t *testing.T) {
	golden, err := os.ReadFile("testdata/ubootefi.var")
	if err != nil {
		t.Fatal(err)
	}
	if count, whole := slot.Variables(golden); !whole || count != 4 {
		t.Errorf("%d variables, whole: %t", count, whole)
	}
	for name, want := range map[string]string{
		"LoaderSystemToken": "0123456789abcdefghijklmnopqrstu", "LoaderEntryOneShot": "=L:0x0", "Hello": "", "PlatformLang": "",
	} {
		if got, _ := slot.Variable(golden, name); string(got) != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := slot.SetVariable(golden, "LoaderEntryOneShot", []byte("=L:0x0")); !bytes.Equal(got, golden) {
		t.Errorf("set to what it is, the file is\n%x, was\n%x", got, golden)
	}
	for at := range golden {
		damaged := bytes.Clone(golden)
		damaged[at] ^= 1
		if _, whole := slot.Variables(damaged); whole {
			t.Errorf("a flipped bit in byte %d was not noticed", at)
		}
		if _, whole := slot.Variables(golden[:at]); whole {
			t.Errorf("the first %d bytes are a whole file", at)
		}
	}
}

package attacktest_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"

	"gatehouse/internal/test/need"
)

// repack rewrites a backup as somebody with its passphrase could: with further files of
// the configuration, by their names, all with the mode 0777, and with another text of the
// main file.
func (b board) repack(medium, mainFile string, more map[string]string) {
	b.t.Helper()
	files, manifest := b.unpack(medium)
	entries, ok := manifest["files"].([]any)
	if !ok {
		b.t.Fatal("the manifest names no files")
	}
	names := []string{"config/gatehouse.toml"}
	files["config/gatehouse.toml"] = mainFile
	kept := []any{}
	for _, e := range entries {
		if e.(map[string]any)["name"] != "config/gatehouse.toml" { //nolint:forcetypeassert // ours
			kept = append(kept, e)
		}
	}
	for name, text := range more {
		names, files["config/"+name] = append(names, "config/"+name), text
	}
	for _, name := range names {
		sum := sha256.Sum256([]byte(files[name]))
		kept = append(kept, map[string]any{
			"name": name, "size": len(files[name]), "sha256": hex.EncodeToString(sum[:]), "mode": 0o777, "owner": "nobody", "group": "nogroup",
		})
	}
	manifest["files"] = kept
	b.pack(medium, files, manifest)
}

// unpack reads a backup.
func (b board) unpack(medium string) (files map[string]string, manifest map[string]any) {
	b.t.Helper()
	sealed, err := os.ReadFile(medium) //nolint:gosec // of this test
	b.must(err)
	identity, err := age.NewScryptIdentity(passphrase)
	b.must(err)
	plain, err := age.Decrypt(bytes.NewReader(sealed), identity)
	b.must(err)
	unzipped, err := gzip.NewReader(plain)
	b.must(err)
	files = map[string]string{}
	for in := tar.NewReader(unzipped); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		b.must(err)
		text, err := io.ReadAll(in)
		b.must(err)
		files[head.Name] = string(text)
	}
	b.must(json.Unmarshal([]byte(files["manifest.json"]), &manifest))
	return files, manifest
}

// pack writes a backup.
func (b board) pack(medium string, files map[string]string, manifest map[string]any) {
	b.t.Helper()
	recipient, err := age.NewScryptRecipient(passphrase)
	b.must(err)
	recipient.SetWorkFactor(10)
	var sealed bytes.Buffer
	encrypted, err := age.Encrypt(&sealed, recipient)
	b.must(err)
	zipped := gzip.NewWriter(encrypted)
	out := tar.NewWriter(zipped)
	add := func(name, text string) {
		b.must(out.WriteHeader(&tar.Header{Name: name, Mode: 0o777, Size: int64(len(text))}))
		_, err := io.WriteString(out, text)
		b.must(err)
	}
	text, err := json.Marshal(manifest)
	b.must(err)
	add("manifest.json", string(text))
	for _, e := range manifest["files"].([]any) { //nolint:forcetypeassert // ours
		name := e.(map[string]any)["name"].(string) //nolint:forcetypeassert // ours
		add(name, files[name])
	}
	b.must(errors.Join(out.Close(), zipped.Close(), encrypted.Close()))
	b.must(os.WriteFile(medium, sealed.Bytes(), 0o600))
}

// A backup restored files of any name and any mode below the folder of the
// configuration: programs that everybody may change, the state that has a first boot
// erase the boot partition, and with the configuration in /etc a job of cron.
func TestAttack_namesInBackup(t *testing.T) {
	need.Root(t)
	t.Parallel()
	b := newBoard(t)
	medium := b.back()
	b.repack(medium, "# of the backup\n", map[string]string{
		"first-boot.state": `{"wiping":{"path":"/boot/x"}}`, "gatehouse-site.toml": "", "bin/run.sh": "#!/bin/sh\n", "conf.d/run.sh": "x",
		"conf.d/60-good.toml": "[station]\nbattery_low = 3.1\n", "credentials/key": "a key",
	})
	b.run("restore", "--passphrase-file", b.path("passphrase"), medium)
	for name, mode := range map[string]os.FileMode{
		"gatehouse.toml": 0o644, "conf.d/60-good.toml": 0o644, "credentials/key": 0o600,
		"first-boot.state": 0, "gatehouse-site.toml": 0, "bin": 0, "conf.d/run.sh": 0,
	} {
		info, err := os.Lstat(b.path("gatehouse/" + name))
		switch {
		case mode == 0 && err == nil:
			t.Errorf("%s was restored, with the mode %v", name, info.Mode())
		case mode != 0 && (err != nil || info.Mode() != mode):
			t.Errorf("%s: %v, %v; want the mode %v", name, info, err, mode)
		}
	}

	// A configuration in a folder that it shares with others names what is to be theirs.
	b.config = b.path("etc/gatehouse.toml")
	b.write("etc/gatehouse.toml", "")
	b.write("etc/cron.d/present", "")
	evil := filepath.Join(b.root, "etc", "cron.d", "evil")
	b.repack(medium, "[cloud]\nurl = \"tls://mqtt.example.test\"\nusername = \"u\"\npassword_file = \""+evil+"\"\n",
		map[string]string{"cron.d/evil": "* * * * * root /bin/evil\n"})
	b.run("restore", "--passphrase-file", b.path("passphrase"), medium)
	if _, err := os.Lstat(evil); err == nil {
		t.Error("a job of cron was restored")
	}
}

package certificate

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gatehouse/internal/board/durable"
)

// The files of the gateway's own CA and server certificate.
const (
	fileCAKey     = "ca.key"
	fileCA        = "ca.crt"
	fileServerKey = "server.key"
	fileServer    = "server.crt"
)

// maxFile is the most that is read of a file, so that a path such as /dev/zero does
// no harm. A chain with its key has some 10 kB.
const maxFile = 1 << 20

// folder is where the gateway's own keys and certificates stand. One process at a
// time has it.
type folder struct {
	path string
	step func(name string) error // called before each step of writing; tests break it there
}

func (f folder) file(name string) string { return filepath.Join(f.path, name) }

func (f folder) read(name string) ([]byte, error) { return readFile(f.file(name)) }

// key reads a private key.
func (f folder) key(name string) (crypto.Signer, error) {
	text, err := f.read(name)
	if err != nil {
		return nil, err
	}
	return parseKey(text)
}

// certificates reads every certificate of a file, at least one.
func (f folder) certificates(name string) ([]*x509.Certificate, error) {
	text, err := f.read(name)
	if err != nil {
		return nil, err
	}
	return parseCertificates(text)
}

// readFile reads a file of bounded size.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the path is the administrator's
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return text, err
}

// write puts a file into the folder, which it makes where there is none, so that a
// power cut leaves either the old or the new one whole.
func (f folder) write(name string, text []byte, mode os.FileMode) error {
	if err := f.make(); err != nil {
		return fmt.Errorf("making %s: %w", f.path, err)
	}
	err := f.step("write")
	if err == nil {
		err = durable.Write(f.file(name), text, mode)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.file(name), err)
	}
	return nil
}

// make makes the folder, for its owner alone.
func (f folder) make() error {
	if _, err := os.Stat(f.path); err == nil {
		return nil
	}
	if err := f.step("folder"); err != nil {
		return err
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return err
	}
	return durable.Sync(filepath.Dir(f.path))
}

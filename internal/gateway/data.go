package gateway

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
)

// copyPath returns the path of the copy of everything but the journal. Beside the
// database it has a name of its family, so that a restore sets it aside with the database.
func copyPath(cfg config.Config) string {
	return filepath.Join(cmp.Or(cfg.DataCopy, cfg.Data), "gatehouse.db.copy")
}

// certificateFolder returns the folder of the gateway's own certificates in the data
// directory.
func certificateFolder(data string) string { return filepath.Join(data, "tls") }

// refuseRoot keeps root from running a gateway on another user's data: what root makes
// there, that user's gateway could not open.
func refuseRoot(data string) error {
	var stat unix.Stat_t
	if os.Geteuid() != 0 || unix.Stat(data, &stat) != nil || stat.Uid == 0 {
		return nil //nolint:nilerr // a directory that is not there yet will be root's
	}
	return fault.New(fault.Conflict, "The data directory "+data+" is that of another user, as whom the gateway runs: start the service with systemctl start gatehouse, or set GATEHOUSE_DATA to another directory")
}

// takeDirectory makes the data directory, for its owner alone, and locks it, so that no
// second gateway writes to the same database. The kernel releases the
// lock when the process ends, however it ends. A directory that cannot be written is no
// reason to keep doors shut.
func takeDirectory(path string) (release func(), err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fault.Wrap(fault.Unavailable, "The data directory "+path+" cannot be created: create it by hand, or set data in the configuration or GATEHOUSE_DATA", err)
	}
	_ = os.Chmod(path, 0o700) //nolint:gosec // a directory
	f, err := os.Open(path)   //nolint:gosec // the path is the administrator's
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "The data directory "+path+" cannot be read by this user: name another one, or run this as its owner", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fault.Wrap(fault.Conflict, "A gateway is running on "+path+": stop it with systemctl stop gatehouse.socket gatehouse.service, or with Ctrl-C where it runs in a terminal", err), f.Close())
	}
	return func() {
		// A child that was just forked has the file too, until it executes its program.
		_ = errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
	}, nil
}

// keySize is the size of the key that signs access tokens, in bytes: as large as
// the hash it goes with (RFC 7518, 3.2).
const keySize = 32

// tokenKey reads the key that signs access tokens, and makes it at first start. When
// that fails, the gateway goes on with a key that it forgets: apps refresh their
// access tokens by themselves.
func tokenKey(data string) (key []byte, damaged error) {
	path := tokenKeyPath(data)
	key, err := os.ReadFile(path) //nolint:gosec // the path is the administrator's
	switch {
	case err != nil:
	case len(key) != keySize:
		err = fmt.Errorf("%s has %d bytes, not %d", path, len(key), keySize)
	case bytes.Count(key, key[:1]) == keySize: // a power cut leaves zeros
		err = fmt.Errorf("%s has %d equal bytes and is no key", path, keySize)
	default:
		return key, nil
	}
	key = newKey()
	if errors.Is(err, fs.ErrNotExist) {
		err = durable.Write(path, key, 0o600)
	}
	return key, err
}

// renewTokenKey stores another key in the place of the present one, which needs no room on the
// disk.
func renewTokenKey(data string, key []byte) error {
	path := tokenKeyPath(data)
	err := durable.Overwrite(path, 0, key)
	if errors.Is(err, fs.ErrNotExist) {
		err = durable.Write(path, key, 0o600)
	}
	return err
}

func tokenKeyPath(data string) string { return filepath.Join(data, "token.key") }

func newKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	return key
}

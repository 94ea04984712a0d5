package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
)

// completeRestore finishes an interrupted restore of the configuration that the flags
// and the environment name.
func (a *app) completeRestore() error {
	where := backup.Configuration{Main: a.mainConfig()}
	if ownConfiguration(where) != nil {
		return nil //nolint:nilerr // no restore of this user has written there
	}
	var w *worker
	_, err := where.Resume(func(data string) (string, interface{ Forget() error }, error) {
		var err error
		if w, err = a.startWorker(order{Job: jobComplete, Data: data}); err != nil {
			return "", nil, err
		}
		got, err := w.listen()
		return got.Waits, w, err
	})
	if w != nil {
		err = errors.Join(err, w.finish())
	}
	return err
}

// ownConfiguration refuses, to root, a configuration in a folder that another user may
// change.
func ownConfiguration(where backup.Configuration) error {
	folder := filepath.Dir(where.Main)
	if os.Geteuid() != 0 {
		return nil
	}
	owner, err := machine.OwnerOf(folder)
	if err == nil && owner.UID != 0 {
		err = fault.New(fault.Forbidden, fmt.Sprintf(
			"The configuration in %s is not root's but that of the user with the number %d: restore as that user, or leave it as it is with --no-config", folder, owner.UID))
	}
	return err
}

// systemUser is the user that the packaged unit runs the gateway as.
const systemUser = "gatehouse"

// makeData creates the data directory of a board that has none yet, for the user of the
// gateway if there is one. Without that user the worker creates it.
func makeData(data string) error {
	owner, known := machine.NamedOwner(systemUser)
	_, missing := os.Lstat(data)
	if os.Geteuid() != 0 || !known || !errors.Is(missing, fs.ErrNotExist) {
		return nil
	}
	if above, err := machine.OwnerOf(data); err != nil || above.UID != 0 {
		return err
	}
	err := os.MkdirAll(filepath.Dir(data), 0o755) //nolint:gosec // the folder above, such as /var/lib
	if err == nil {
		err = os.Mkdir(data, 0o700)
	}
	if err == nil {
		err = os.Lchown(data, owner.UID, owner.GID)
	}
	return fault.Wrap(fault.Unavailable, "The data directory "+data+" cannot be created", err)
}

package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gatehouse/internal/cloud/api"
)

// keyText stands above the key in its file, where every reader of PEM ignores it.
const keyText = `This is the private key of the releases of Gatehouse that are made from this folder.
Boards on which such an image was written take updates that this key has signed, and no
others: with the key a program can be put on all of these boards, and without it they
can only be written anew. Keep it secret, and keep a copy elsewhere, offline.
packaging/developing.md says how to keep it and how to change it.
`

// makeKey makes the release key, unless it is there already.
func makeKey(o options) error {
	path := o.rest[0]
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	key, err := api.Generate("")
	if err != nil {
		return err
	}
	secret, err := key.PEM()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(keyText + secret.Reveal())
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "\nrelease: made the key %s in %s\n\n%s\n", key.Public().ID, path, keyText)
	return nil
}

// printPublic prints the public halves of keys as an image has them.
func printPublic(o options) error {
	keys, err := readKeys(o.rest)
	if err != nil {
		return err
	}
	for _, key := range keys {
		fmt.Println(key.Public())
	}
	return nil
}

// printPEM prints the public half of a key as openssl reads it.
func printPEM(o options) error {
	key, err := readKey(o.rest[0])
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public().Public)
	if err != nil {
		return err
	}
	return pem.Encode(os.Stdout, &pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// sign writes the signature of a list of sums. Such a list begins with a hexadecimal
// digit, so it can be taken for no update, which begins with "gatehouse-update".
func sign(o options) error {
	if len(o.rest) != 2 {
		return errUsage
	}
	key, err := readKey(o.rest[0])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(o.rest[1])
	if err != nil {
		return err
	}
	return os.WriteFile(o.rest[1]+".sig", key.SignText(text), 0o644) //nolint:gosec // it is to be published
}

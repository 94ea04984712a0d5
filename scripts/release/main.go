// Command release does those steps of a release that shell scripts cannot: it makes and
// reads the release key, packs and signs the update of boards, signs the list of sums,
// and makes the list of components the same each time. scripts/make-release and
// scripts/update-file run it.
//
//	release key FILE                     makes the key, unless the file is there
//	release public KEY…                  prints the public halves, for update-keys
//	release pem KEY                      prints the public half in PEM, for openssl
//	release sign KEY FILE                writes FILE.sig
//	release pack -parts DIRECTORY -schema N -time UNIX -keys FILE -out FILE KEY…
//	release sbom -version VERSION -tool VERSION -time UNIX FILE
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"gatehouse/internal/cloud/api"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run does the step that the arguments name.
func run(arguments []string) error {
	if len(arguments) == 0 {
		return errUsage
	}
	steps := map[string]func(options) error{
		"key": makeKey, "public": printPublic, "pem": printPEM, "sign": sign, "pack": pack, "sbom": settleBOM,
	}
	step, known := steps[arguments[0]]
	if !known {
		return errUsage
	}
	o, err := parse(arguments[0], arguments[1:])
	if err != nil {
		return err
	}
	return step(o)
}

var errUsage = fmt.Errorf("it takes one of key, public, pem, sign, pack and sbom; see go doc ./scripts/release")

// options are those of every step; each uses some.
type options struct {
	parts   string // the folder of the parts of an update
	schema  int    // of the database that the version writes
	time    time.Time
	keys    string // the file of the keys that the image trusts
	out     string
	version string
	tool    string   // the version of the tool that listed the components
	rest    []string // the arguments without a flag
}

func parse(step string, arguments []string) (o options, err error) {
	flags := flag.NewFlagSet(step, flag.ContinueOnError)
	var seconds int64
	flags.StringVar(&o.parts, "parts", "", "the folder with vmlinuz, initrd, entry, shell-entry and root")
	flags.IntVar(&o.schema, "schema", 0, "the schema of the database that this version writes")
	flags.Int64Var(&seconds, "time", 0, "the time of the release, in seconds since 1970")
	flags.StringVar(&o.keys, "keys", "", "the keys that the image trusts")
	flags.StringVar(&o.out, "out", "", "the file to write")
	flags.StringVar(&o.version, "version", "", "the version of the release")
	flags.StringVar(&o.tool, "tool", "", "the version of the tool that made the list")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	o.time = time.Unix(seconds, 0).UTC()
	o.rest = flags.Args()
	if len(o.rest) == 0 {
		return o, errUsage
	}
	return o, nil
}

// readKey reads a private key.
func readKey(path string) (api.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return api.PrivateKey{}, fmt.Errorf("the release key: %w", err)
	}
	key, err := api.ParsePrivateKey(text)
	if err != nil {
		return api.PrivateKey{}, fmt.Errorf("the release key %s: %w", path, err)
	}
	return key, nil
}

// readKeys reads private keys.
func readKeys(paths []string) (keys []api.PrivateKey, err error) {
	for _, path := range paths {
		key, err := readKey(path)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

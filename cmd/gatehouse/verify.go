package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// databaseFile is the gateway's database within its data directory.
const databaseFile = "gatehouse.db"

// witnessFlags name the witnesses of verify.
type witnessFlags struct {
	heads      []string // "SEQ:HASH"
	backup     string
	passphrase string
}

func (a *app) verifyCommand() *cobra.Command {
	var flags witnessFlags
	cmd := a.command(&cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check that no record of the journal was changed or removed",
		Long: `Check the chain of hashes over the whole journal, and name the first record that
was changed or removed: of the running gateway, else of the database in its data
directory, or of FILE, the database of a stopped gateway or a copy of one. Exit status
1 means that the journal is broken, or that a witness contradicts it.

Someone who can write to the file could compute all hashes anew. So the head of the
chain, the number of the newest record and its hash, is kept elsewhere too: at each
start and once a day in the system log, in each backup, and in the status that the
cloud's application receives. Verify compares the journal with those of the system log
where it may be read (not for FILE), and with those that --backup and --witness name.`,
		Example: `  gatehouse journal verify --backup /mnt/gatehouse-2026-11-21.backup
  gatehouse journal verify /mnt/copy/gatehouse.db`,
	}, func(ctx context.Context, args []string) error {
		witnesses, err := a.witnesses(ctx, flags, len(args) == 0)
		if err != nil {
			return err
		}
		done := a.working("Checking the journal")
		verdict, err := a.verify(ctx, args, witnesses)
		done()
		if err != nil {
			return err
		}
		return a.printVerdict(verdict)
	})
	cmd.Flags().StringArrayVar(&flags.heads, "witness", nil, "compare with this head, `SEQ:HASH`; may be given several times")
	cmd.Flags().StringVar(&flags.backup, "backup", "", "compare with the manifest of the backup `FILE`")
	passphraseFlag(cmd, &flags.passphrase)
	return cmd
}

func (a *app) verify(ctx context.Context, args []string, witnesses []journal.Witness) (verdict adminapi.Verdict, err error) {
	if len(args) == 1 {
		got, err := a.look(ctx, order{Job: jobVerify, Path: args[0], Witnesses: witnesses})
		return got.Verdict, err
	}
	err = a.call(func(gw *client.Client) error {
		if verdict, err = gw.VerifyJournal(ctx); err == nil && len(witnesses) > 0 {
			verdict.Witnesses, err = gw.Testify(ctx, witnesses)
		}
		return err
	})
	if !fault.Is(err, fault.Unavailable) || a.namedSocket() != "" {
		return verdict, err
	}
	cfg, unset := a.settings()
	if unset != nil {
		return verdict, unset
	}
	got, unread := a.look(ctx, order{Job: jobVerify, Path: filepath.Join(cfg.Data, databaseFile), Witnesses: witnesses})
	if unread != nil {
		return verdict, errors.Join(err, unread)
	}
	return got.Verdict, nil
}

func (a *app) printVerdict(v adminapi.Verdict) error {
	var failed error
	for _, t := range v.Witnesses {
		if t.Statement == journal.Contradicts && failed == nil {
			failed = fmt.Errorf("the journal was rewritten: %s has another record %d; keep a copy of the database as evidence, and find out who could write to it", t.Source, t.Seq)
		}
	}
	if !v.Sound && failed == nil {
		failed = fmt.Errorf("the journal is broken at record %d: %s; keep a copy of the database as evidence, and find out who could write to it", v.Broken, v.Why)
	}
	err := a.result(v, func(w *lines) {
		if !v.Sound && len(v.Witnesses) == 0 {
			return
		}
		if failed == nil {
			w.printf("The journal is sound: %s checked (%d to %d).", plural(v.Records, "record"), v.First, v.Last)
		}
		if v.Removed > 0 {
			w.printf("%d of these numbers are of records that strangers or stations caused, and that were removed for room: see the records of the kind gap.", v.Removed)
		}
		if v.Lost > 0 {
			w.printf("%d of these numbers are missing: the database was damaged, see the records of the kind records-lost.", v.Lost)
		}
		printWitnesses(w, v.Witnesses)
	})
	return errors.Join(err, failed)
}

// witnesses returns those that the flags name and, for the gateway of this machine,
// those of its system log.
func (a *app) witnesses(ctx context.Context, flags witnessFlags, local bool) (all []journal.Witness, err error) {
	for _, text := range flags.heads {
		head, err := parseHead(text)
		if err != nil {
			return nil, wrongUsage(err)
		}
		all = append(all, journal.Witness{Source: "the head that was named", Head: head})
	}
	if flags.backup != "" {
		w, err := a.backupWitness(ctx, flags)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	if local {
		all = append(all, systemLogWitnesses(ctx)...)
	}
	return all, nil
}

// parseHead reads "SEQ:HASH".
func parseHead(text string) (journal.Head, error) {
	number, hash, _ := strings.Cut(text, ":")
	seq, err := strconv.ParseUint(number, 10, 63)
	sum, bad := hex.DecodeString(hash)
	if err != nil || bad != nil || len(sum) != 32 {
		return journal.Head{}, fmt.Errorf("--witness takes SEQ:HASH, the number of a record and 64 hexadecimal digits, not %q", text)
	}
	return journal.Head{Seq: seq, Hash: hex.EncodeToString(sum)}, nil
}

// backupWitness reads the head out of the manifest of a backup, all of which it checks.
func (a *app) backupWitness(ctx context.Context, flags witnessFlags) (w journal.Witness, err error) {
	medium, err := backup.Open(flags.backup)
	if err != nil {
		return w, err
	}
	defer func() { _ = medium.Close() }()
	passphrase, err := a.passphrase(ctx, flags.passphrase, false)
	if err != nil {
		return w, err
	}
	m, _, err := medium.Pass(ctx, passphrase, io.Discard)
	if err == nil && m.Holds.Head == "" {
		err = fault.New(fault.Invalid, flags.backup+" has no head of the journal: it is a plain copy of a database, or was made by a former version")
	}
	head := journal.Head{Seq: m.Holds.Last, Hash: m.Holds.Head}
	return journal.Witness{Source: "the backup " + flags.backup, Time: m.Created, Head: head}, err
}

// logLimit bounds reading the system log.
const logLimit = time.Minute

// headLine matches a head in a line of the system log: its time in microseconds, and the
// gateway's message in JSON or as text. What a message quotes, such as the id of a
// command, has its quotes escaped and so does not match.
var headLine = regexp.MustCompile(`^(\d+)\.(\d{6}) .*[ "]msg"?[=:]"` + journal.HeadMessage + `",? ?"?seq"?[=:](\d+),? ?"?hash"?[=:]"?([0-9a-f]{64})`)

// systemLogWitnesses reads the heads that the gateway of this machine has written to the
// system log, the newest of some years; none where there is no such log, or it may not be
// read.
func systemLogWitnesses(ctx context.Context) (all []journal.Witness) {
	ctx, cancel := context.WithTimeout(ctx, logLimit)
	defer cancel()
	out, err := machine.This().Run(ctx, "journalctl", "_SYSTEMD_UNIT=gatehouse.service", "--grep="+journal.HeadMessage,
		"--lines=1000", "--output=short-unix", "--no-pager", "--quiet")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(out) {
		found := headLine.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		micros, unknown := strconv.ParseInt(found[1]+found[2], 10, 64)
		head, err := parseHead(found[3] + ":" + found[4])
		if err == nil && unknown == nil {
			all = append(all, journal.Witness{Source: "the system log", Time: site.At(time.UnixMicro(micros)), Head: head})
		}
	}
	return all
}

// printWitnesses prints how the witnesses of each source compare.
func printWitnesses(w *lines, all []journal.Testimony) {
	if len(all) == 0 {
		w.printf("No witness was found: the chain alone cannot show that the whole file was rewritten (--help names the witnesses).")
		return
	}
	words := map[journal.Statement]string{
		journal.Agrees:      "agrees with the journal",
		journal.Contradicts: "CONTRADICTS the journal",
		journal.Gone:        "is of records that were removed by age or size, or lost",
		journal.Superseded:  "is from before the gateway was restored from a backup, by its own journal",
	}
	var groups [][2]string // source and words
	count := map[[2]string]int{}
	for _, t := range all {
		g := [2]string{t.Source, words[t.Statement]}
		if count[g]++; count[g] == 1 {
			groups = append(groups, g)
		}
	}
	for _, g := range groups {
		w.printf("  %s (%s) %s.", printable(g[0]), plural(count[g], "head"), g[1])
	}
}

package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
)

//go:embed migrations/*.sql
var migrations embed.FS

// SchemaVersion returns the version of the schema that this program writes.
func SchemaVersion() int { return len(schemas()) }

// schemas returns the texts of the migrations: the first creates schema 1 in an empty
// file, and each that follows brings its predecessor's schema to the next.
func schemas() (texts []string) {
	files, _ := fs.Glob(migrations, "migrations/*.sql") // what is embedded can be read
	for _, file := range files {
		text, _ := migrations.ReadFile(file)
		texts = append(texts, string(text))
	}
	if nextSchema != "" {
		texts = append(texts, nextSchema)
	}
	return texts
}

// migrate brings the schema forward, one text and one transaction at a time; PRAGMA
// user_version is how many were applied. A database at path that holds data is copied
// beside itself first; path is "" for one of which there is another copy.
func migrate(ctx context.Context, db *sql.DB, path string, texts []string) error {
	version, err := schemaOf(ctx, db)
	if err != nil {
		return fmt.Errorf("opening the database %s: %w", path, err)
	}
	if version > len(texts) {
		return errNewer(path, version, len(texts))
	}
	if path != "" && version > 0 && version < len(texts) {
		if err := copyBeside(ctx, db, path, version); err != nil {
			return err
		}
	}
	for ; version < len(texts); version++ {
		if err := applyMigration(ctx, db, texts[version], version+1); err != nil {
			return fmt.Errorf("migrating to schema %d: %w", version+1, err)
		}
	}
	return nil
}

func applyMigration(ctx context.Context, db *sql.DB, text string, version int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("%s\n; PRAGMA user_version = %d", text, version)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// schemaOf returns the version of the schema; 0: the file is empty.
func schemaOf(ctx context.Context, q queryer) (version int, err error) {
	err = q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	if err == nil && version < 0 {
		err = fmt.Errorf("%w: its version is %d", errDamagedFile, version)
	}
	return version, err
}

// errNewer refuses a database of a newer version. Where the upgrade to that version
// left a copy which this one can read, the error names the way back to it.
func errNewer(path string, version, known int) error {
	advice := "install the newer version again"
	if former := copyName(path, known); unix.Access(former, unix.R_OK) == nil {
		advice += ", or go back to the data of before the upgrade with: gatehouse restore " + former
	}
	return fault.New(fault.Conflict, fmt.Sprintf(
		"the database %s is of a newer version of gatehouse (schema %d, this one knows %d): %s; nothing was changed",
		path, version, known, advice))
}

// copyName is the path of the copy of the database at path that was taken before
// its schema was changed from version.
func copyName(path string, version int) string { return fmt.Sprintf("%s.schema%d", path, version) }

// copyBeside writes a whole copy of the database before its schema changes, and checks its
// pages. Only a copy that is good replaces a former one.
func copyBeside(ctx context.Context, db *sql.DB, path string, version int) error {
	target := copyName(path, version)
	if err := removeDatabase(path + newerMark); err != nil { // this upgrade may need its room
		return err
	}
	err := replaceFile(target, func(partial string) error {
		if err := snapshot(ctx, db, partial); err != nil {
			return err
		}
		_, err := readFile(ctx, partial, "The copy", func(copied *sql.DB) (any, error) { return nil, quickCheck(ctx, copied) })
		return err
	})
	if err != nil {
		return fmt.Errorf("copying the database to %s before changing its schema: %w", target, err)
	}
	return nil
}

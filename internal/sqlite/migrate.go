package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gatehouse/internal/fault"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema forward, one numbered file and one transaction at a
// time; PRAGMA user_version says how many were applied. A database that holds
// data is copied beside itself first.
func migrate(ctx context.Context, db *sql.DB, path string) error {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return fmt.Errorf("listing migrations: %w", err)
	}
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return fmt.Errorf("opening the database %s: %w", path, err)
	}
	if version > len(files) {
		return fault.New(fault.Conflict, fmt.Sprintf(
			"the database %s is of a newer version of gatehouse (schema %d, this one knows %d): install the newer version again; nothing was changed",
			path, version, len(files)))
	}
	if version > 0 && version < len(files) {
		if err := copyBeside(ctx, db, path, version); err != nil {
			return err
		}
	}
	for ; version < len(files); version++ {
		if err := applyMigration(ctx, db, files[version], version+1); err != nil {
			return err
		}
	}
	return nil
}

func applyMigration(ctx context.Context, db *sql.DB, file string, version int) error {
	text, err := migrations.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("migrating to schema %d: %w", version, err)
	}
	_, err = tx.ExecContext(ctx, string(text))
	if err == nil {
		_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("migrating to schema %d: %w", version, err), tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("migrating to schema %d: %w", version, err)
	}
	return nil
}

// copyBeside writes a whole copy of the database before its schema changes.
func copyBeside(ctx context.Context, db *sql.DB, path string, version int) error {
	target := fmt.Sprintf("%s.schema%d", path, version)
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replacing the old copy: %w", err)
	}
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", target); err != nil {
		return fmt.Errorf("copying the database to %s before migrating: %w", target, err)
	}
	return os.Chmod(target, 0o600)
}

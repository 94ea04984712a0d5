package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// object is a table, an index, a trigger or a view: one row of sqlite_schema.
type object struct {
	kind, name, table string
	text              string // the statement that creates it, with single spaces; "": SQLite creates it by itself
}

// String names the object in messages.
func (o object) String() string { return o.kind + " " + o.name }

// foreignObjects compares the schema of a database with the one that the migrations up
// to its version make. It returns what is there and should not be, or is there in
// another form, and what is missing. A database that is empty, or of a newer version
// than this program knows, has neither.
//
// A planted trigger could undo what the gateway does, and would outlive the removal of
// an account. No version of gatehouse creates triggers or views.
func foreignObjects(ctx context.Context, db *sql.DB) (foreign, missing []object, err error) {
	texts := schemas()
	version, err := schemaOf(ctx, db)
	if err != nil || version < 1 || version > len(texts) {
		return nil, nil, err
	}
	return compareSchema(ctx, db, texts[:version])
}

// compareSchema compares the schema of a database with the one that migrations make.
func compareSchema(ctx context.Context, db *sql.DB, texts []string) (foreign, missing []object, err error) {
	wanted, err := objectsOf(ctx, texts)
	if err != nil {
		return nil, nil, err
	}
	present, err := objectsIn(ctx, db)
	if err != nil {
		return nil, nil, err
	}
	foreign = slices.DeleteFunc(slices.Clone(present), func(o object) bool { return slices.Contains(wanted, o) })
	missing = slices.DeleteFunc(wanted, func(o object) bool { return slices.Contains(present, o) })
	return foreign, missing, nil
}

// objectsOf returns the objects that migrations create.
func objectsOf(ctx context.Context, texts []string) (objects []object, err error) {
	db := connect(":memory:", 1) // each connection has a database of its own
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, text := range texts {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return nil, fmt.Errorf("making a schema to compare with: %w", err)
		}
	}
	return objectsIn(ctx, db)
}

// objectsIn returns the objects of a database, without the statistics that ANALYZE
// leaves.
func objectsIn(ctx context.Context, db *sql.DB) (objects []object, err error) {
	for o, err := range each(ctx, db, scanObject, "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat_'") {
		if err != nil {
			return nil, fmt.Errorf("reading the schema: %w", err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

func scanObject(rows *sql.Rows) (o object, err error) {
	err = rows.Scan(&o.kind, &o.name, &o.table, &o.text)
	o.text = strings.Join(strings.Fields(o.text), " ")
	return o, err
}

// dropForeign removes the triggers, views and indexes of a database that no migration
// creates. What it cannot remove it logs and leaves: foreign tables, which do nothing
// by themselves, and everything on a disk that takes no writes. An error never keeps
// the gateway from starting.
func dropForeign(ctx context.Context, db *sql.DB, log *slog.Logger) {
	foreign, missing, err := foreignObjects(ctx, db)
	if err != nil {
		return // the migration, which reads the same, returns why
	}
	for _, o := range foreign {
		err := errors.New("a table is never removed")
		if o.kind != "table" && o.text != "" {
			_, err = db.ExecContext(ctx, "DROP "+strings.ToUpper(o.kind)+` "`+strings.ReplaceAll(o.name, `"`, `""`)+`"`)
		}
		if err != nil {
			log.Error("the database holds what no version of gatehouse makes", "object", o.String(), "error", err)
			continue
		}
		log.Error("removed from the database what no version of gatehouse makes", "object", o.String())
	}
	for _, o := range missing {
		log.Error("the database lacks what this version makes", "object", o.String())
	}
}

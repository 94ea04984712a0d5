-- Before: the tables of 0001 and 0002.
-- After:  the same without cloud_command. The journal remembers which signed commands were
--         carried out: the record of each is durable, with its id, before the command
--         leaves. cloud_commands_from in meta means nothing any more: a record of the
--         kind "restored" says the same.

DROP TABLE cloud_command;

DELETE FROM meta WHERE key = 'cloud_commands_from';

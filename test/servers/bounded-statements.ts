/** A table of PostgreSQL that refuses statements over more than the given number of rows. */
import { type PostgresSql, query } from '../../src/homes/postgres/database/connection.js';

export async function refuseLargeStatements(sql: PostgresSql, table: string, rowsMax: number): Promise<void> {
  await query(
    sql,
    `CREATE OR REPLACE FUNCTION public.refuse_large_statement() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF (SELECT count(*) FROM changed) > TG_ARGV[0]::integer THEN RAISE EXCEPTION '% rows of % in one statement', (SELECT count(*) FROM changed), TG_TABLE_NAME; END IF;
        RETURN NULL;
      END $$`,
  );
  for (const event of ['delete', 'update']) {
    await query(
      sql,
      `CREATE TRIGGER large_${event} AFTER ${event} ON ${table} REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_large_statement(${rowsMax})`,
    );
  }
}

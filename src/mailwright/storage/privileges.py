"""Keep tables, views and sequences on PostgreSQL accessible to their owner only, also on Supabase.

Supabase lets every new table, view and sequence of a project be read and written through its API, by the roles `anon`
and `authenticated` that browsers have.
"""

from typing import Final

WEB_ROLES: Final = ("anon", "authenticated")


def revoke_access(*names: str) -> str:
    """Return the statement that takes all privileges on these tables and views from everybody but their owner.

    It includes their partitions and the sequences of their keys, and skips names that do not exist and what
    another role owns.
    """
    relations = ", ".join(f"'{name}'" for name in names)
    roles = ", ".join(f"'{role}'" for role in WEB_ROLES)
    return f"""
DO $$ DECLARE granted record; web_role text;
BEGIN
  FOR granted IN
    WITH named AS (SELECT to_regclass(name)::oid AS oid FROM unnest(ARRAY[{relations}]) AS name),
    parts AS (SELECT inhrelid AS oid FROM pg_inherits WHERE inhparent IN (SELECT oid FROM named)),
    sequences AS (
      SELECT objid AS oid FROM pg_depend
      WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i')
        AND refobjid IN (SELECT oid FROM named)
    )
    SELECT oid::regclass AS name, CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind FROM pg_class
    WHERE oid IN (SELECT oid FROM named UNION SELECT oid FROM parts UNION SELECT oid FROM sequences)
      AND relkind IN ('r', 'p', 'v', 'S')
      AND relacl IS NOT NULL AND pg_has_role(relowner, 'USAGE')
  LOOP
    FOR web_role IN
      SELECT 'PUBLIC' UNION ALL SELECT quote_ident(rolname) FROM pg_roles WHERE rolname IN ({roles})
    LOOP
      EXECUTE format('REVOKE ALL ON %s %s FROM %s', granted.kind, granted.name, web_role);
    END LOOP;
  END LOOP;
END $$
"""  # noqa: S608 - only names from our own files

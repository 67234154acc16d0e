"""Keep tables and views on PostgreSQL readable by their owner only, also on Supabase.

Supabase lets every new table and view of a project be read and written through its API, by the roles `anon` and
`authenticated` that browsers have.
"""

from typing import Final

WEB_ROLES: Final = ("anon", "authenticated")


def revoke_access(*names: str) -> str:
    """Return the statement that takes all privileges on these tables and views from everybody but their owner."""
    tables = ", ".join(names)
    roles = ", ".join(f"'{role}'" for role in WEB_ROLES)
    return f"""
DO $$ DECLARE web_role text;
BEGIN
  REVOKE ALL ON TABLE {tables} FROM PUBLIC;
  FOR web_role IN SELECT rolname FROM pg_roles WHERE rolname IN ({roles}) LOOP
    EXECUTE 'REVOKE ALL ON TABLE {tables} FROM ' || quote_ident(web_role);
  END LOOP;
END $$
"""  # noqa: S608 - only names from our own files

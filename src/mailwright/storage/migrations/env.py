"""Run migrations on the connection that `storage.migrate` passes."""

from alembic import context

from mailwright.storage.tables import metadata

if context.is_offline_mode():
    # `storage.pending_migrations` renders the SQL of migrations to describe them.
    context.configure(dialect_name="postgresql", target_metadata=metadata)
else:
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        transaction_per_migration=False,
        render_as_batch=True,
    )
context.run_migrations()

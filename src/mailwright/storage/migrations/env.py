"""Run migrations on the connection that `storage.migrate` passes."""

from alembic import context

from mailwright.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=False,
    render_as_batch=True,
)
context.run_migrations()

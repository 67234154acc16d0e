"""Mailouts: send Notion pages to subscribers once, and write the results back to Notion and Supabase."""

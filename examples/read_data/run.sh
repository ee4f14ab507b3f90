# An export with names of its own: two prompts on one model, grades in words for missing.
cje doctor export.csv --field prompt_id=question_id --field judge_score=gpt4_points --field label=reviewer --policy-column prompt_version
cje convert export.csv table.parquet --field prompt_id=question_id --field judge_score=gpt4_points --field label=reviewer --policy-column prompt_version
cje analyze table.parquet --baseline v7

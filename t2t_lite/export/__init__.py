"""Export: the SavedModel with its text operations, version folder, model card, warm-up; CTranslate2."""

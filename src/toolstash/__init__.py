"""toolstash keeps large tool results out of a model's context and in Redis."""

# A JSON object, of bounded size; anything else is refused.
pool     gpu total=9
hold     a gpu 1 ttl=60 metadata='[1]'      -> invalid field=metadata code=metadata_not_object
hold     a gpu 1 ttl=60 metadata='{"a": "\u0000"}'           -> invalid field=metadata code=metadata_unprintable
hold     a gpu 1 ttl=60 metadata='{"n": 99999999999999999999}'   -> invalid field=metadata code=metadata_number_too_large
hold     a gpu 1 ttl=60 metadata='{"a": {"b": [1, 2.5, null, true, "é"]}}'   -> held
restart
expect hold a                               -> held metadata='{"a": {"b": [1, 2.5, null, true, "é"]}}'
hold     b gpu 1 ttl=60 entity=x*257        -> invalid field=entity code=entity_too_long
hold     b gpu 1 ttl=60 reason=x*1025       -> invalid field=reason code=reason_too_long
hold     b gpu 1 ttl=60 correlation_id=''   -> invalid field=correlation_id code=correlation_id_required
